"""``chainercv.links``: its blocks and the nets that are made of them; importing this registers them all."""

from netweave.formats.chainer.shim.chainercv.table import CV_LINKS
from netweave.formats.lowering import import_families

__all__ = ["CV_LINKS"]

import_families(__name__)
