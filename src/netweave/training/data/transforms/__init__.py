"""The transforms; importing this package enters them in the table."""

from netweave.training.data.transforms import arithmetic, detection, geometry

__all__ = ["arithmetic", "detection", "geometry"]
