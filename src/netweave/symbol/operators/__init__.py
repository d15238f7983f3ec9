"""Readers of MXNet's operators, one file per family; importing this package registers them all."""

from netweave.lowering import import_families
from netweave.symbol.operators.refused import REASONS
from netweave.symbol.registry import READERS

__all__ = ["READERS", "REASONS"]

import_families(__name__)
