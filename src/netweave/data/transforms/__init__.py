"""The transforms; importing this package enters them in the table."""

from netweave.data.transforms import arithmetic, color, geometry, warp

__all__ = ["arithmetic", "color", "geometry", "warp"]
