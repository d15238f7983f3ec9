"""Readers of Keras's layers, one file per family; importing this package registers them all."""

from netweave.formats.keras.context import READERS
from netweave.formats.keras.layers.elementwise import REASONS
from netweave.formats.lowering import import_families

__all__ = ["READERS", "REASONS"]

import_families(__name__)
