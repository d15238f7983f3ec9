"""Types of layers, one file for each family; importing this registers them all.

To add a type: a function under ``@layer`` in the file of its family; its facts from the file in Apache's
repository that the docstring names.
"""

from netweave.formats.singa.layers import (
    activation,
    connected,
    joining,
    losses,
    machine,
    normalisation,
    recurrent,
    windows,
)

__all__ = [
    "REASONS",
    "activation",
    "connected",
    "joining",
    "losses",
    "machine",
    "normalisation",
    "recurrent",
    "windows",
]

_PARTS = "which SINGA puts between machines by itself; remove it"

REASONS = {
    "kBM": "which SINGA never wrote; kCudnnBM is read",
    "kBridgeDst": _PARTS,
    "kBridgeSrc": _PARTS,
    "kPrefetch": "put the layers in it into the net itself",
}
