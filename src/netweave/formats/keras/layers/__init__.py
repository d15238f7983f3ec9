"""Readers of Keras's layers, one file per family; importing this package registers them all."""

from netweave.formats.keras.layers.refused import REASONS
from netweave.formats.keras.registry import READERS
from netweave.formats.lowering import import_families

__all__ = ["READERS", "REASONS"]

import_families(__name__)
