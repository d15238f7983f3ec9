"""The operators that can be written, by subject."""

from netweave.formats.lowering import import_families
from netweave.formats.mxnet.writer.table import TABLE

__all__ = ["TABLE"]

import_families(__name__)
