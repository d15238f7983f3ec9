"""``chainer.links``, one file for each family; importing this registers them all."""

from netweave.formats.chainer.shim.links import (
    connection,
    convolution,
    inception,
    model,
    normalisation,
    recurrent,
    sequences,
    vision,
)
from netweave.formats.chainer.shim.links.table import LINKS

__all__ = [
    "LINKS",
    "connection",
    "convolution",
    "inception",
    "model",
    "normalisation",
    "recurrent",
    "sequences",
    "vision",
]
