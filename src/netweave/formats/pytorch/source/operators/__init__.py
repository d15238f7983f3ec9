"""ONNX's operators as PyTorch, one file for each family; importing this registers them all.

To add one: a function under ``@writes("Op")`` that returns a Step.
"""

from netweave.formats.pytorch.source.table import TABLE
from netweave.lowering import import_families

__all__ = ["TABLE"]

import_families(__name__)
