"""Readers of MXNet's operators, one file per family; importing this package registers them all."""

from netweave.formats.lowering import import_families
from netweave.formats.mxnet.symbol.operators.refused import REASONS
from netweave.formats.mxnet.symbol.registry import READERS

__all__ = ["READERS", "REASONS"]

import_families(__name__)
