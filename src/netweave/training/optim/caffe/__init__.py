"""Caffe's solvers: update rules, learning-rate policies and fillers."""
