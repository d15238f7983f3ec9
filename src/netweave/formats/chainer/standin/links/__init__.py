"""``chainer.links``, one file for each family; importing this registers them all."""

from netweave.formats.chainer.standin.links import (
    connection,
    convolution,
    inception,
    model,
    normalisation,
    recurrent,
    sequences,
    vision,
)
from netweave.formats.chainer.standin.links.table import LINKS

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
