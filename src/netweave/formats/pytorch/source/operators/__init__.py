"""ONNX's operators as PyTorch, one file for each family; importing this registers them all.

To add one: a function under ``@writes("Op")`` that returns a Step.
"""

from netweave.formats.lowering import import_families
from netweave.formats.pytorch.source.table import TABLE

__all__ = ["TABLE"]

import_families(__name__)
