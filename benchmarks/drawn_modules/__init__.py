"""Drawn PyTorch modules against their own exports, in both orders."""
