"""How the layout of one array relates to that of another: axes, order along them, shape, scale."""
