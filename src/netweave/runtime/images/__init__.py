"""Images on their way into a net: decoding, scaling and preprocessing."""
