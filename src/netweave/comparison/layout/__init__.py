"""Changes of layout between arrays: axes, order along them, shape, scale."""
