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
    "activation",
    "connected",
    "joining",
    "losses",
    "machine",
    "normalisation",
    "reason",
    "recurrent",
    "windows",
]

_PARTS = "which SINGA puts between machines by itself; leave it out"

_REASONS = {
    "kBM": "which SINGA never wrote; kCudnnBM is read",
    "kBridgeDst": _PARTS,
    "kBridgeSrc": _PARTS,
    "kPrefetch": "put the layers in it into the net itself",
}


def reason(kind: str, *, own: bool) -> str:
    """Return why a type is not read, as an addition to its name, or nothing.

    Args:
        kind: The type.
        own: Whether it is of the user's own.
    """
    if own:
        return ", a layer of the user's own, whose code is not in the file"
    return f", {_REASONS[kind]}" if kind in _REASONS else ""
