"""The transforms; importing this package enters them in the table."""

from netweave.training.data.transforms import arithmetic, boxes, color, detection, geometry, warp

__all__ = ["arithmetic", "boxes", "color", "detection", "geometry", "warp"]
