"""One small net, written in every format, with a difference planted in it."""
