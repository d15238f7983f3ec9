"""``chainer.functions``, one file for each family; importing this registers them all."""

from netweave.formats.chainer.shim.registry import FUNCTIONS
from netweave.formats.lowering import import_families

__all__ = ["FUNCTIONS"]

import_families(__name__)
