"""Readers of TensorFlow's operators, one file per family; importing this package registers them all."""

from netweave.formats.tensorflow.operators.refused import REASONS
from netweave.formats.tensorflow.registry import READERS
from netweave.lowering import import_families

__all__ = ["READERS", "REASONS"]

import_families(__name__)
