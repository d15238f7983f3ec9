"""Readers of TensorFlow's operators, one file per family; importing this package registers them all."""

from netweave.formats.lowering import import_families
from netweave.formats.tensorflow.nodes import READERS
from netweave.formats.tensorflow.operators.elementwise import REASONS

__all__ = ["READERS", "REASONS"]

import_families(__name__)
