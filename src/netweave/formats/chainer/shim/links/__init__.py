"""``chainer.links``, one file for each family; importing this registers them all."""

from netweave.formats.chainer.shim.links.table import LINKS
from netweave.formats.lowering import import_families

__all__ = ["LINKS"]

import_families(__name__)
