"""The operators that can be written, by subject."""

from netweave.formats.keras.source.table import TABLE
from netweave.formats.lowering import import_families

__all__ = ["TABLE"]

import_families(__name__)
