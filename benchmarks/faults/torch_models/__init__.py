"""PyTorch ports of nets that the benchmark has in other formats, one file each; one line a module or call."""
