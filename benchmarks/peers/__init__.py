"""Netweave and its peers on the same pairs of ONNX files."""
