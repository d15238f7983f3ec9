"""One function for each type of layer, one file for each family; importing this registers them all."""

from netweave.formats.caffe.context import LAYERS
from netweave.formats.lowering import import_families

__all__ = ["LAYERS"]

import_families(__name__)
