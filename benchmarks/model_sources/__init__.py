"""PyTorch model sources of public repositories as they lie there: how many load with one command."""
