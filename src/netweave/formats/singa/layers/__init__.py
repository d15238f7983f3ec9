"""Types of layers, one file for each family; importing this registers them all.

To add a type: a function under ``@layer`` in the file of its family; its facts from the file in Apache's
repository that the docstring names.
"""

from netweave.formats.lowering import import_families
from netweave.formats.singa.context import LAYERS

__all__ = ["LAYERS", "REASONS"]

_PARTS = "which SINGA puts between machines by itself; remove it"

REASONS = {
    "kBM": "which SINGA never wrote; kCudnnBM is read",
    "kBridgeDst": _PARTS,
    "kBridgeSrc": _PARTS,
    "kPrefetch": "put the layers in it into the net itself",
}

import_families(__name__)
