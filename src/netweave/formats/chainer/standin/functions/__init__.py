"""``chainer.functions``, one file for each family; importing this registers them all."""

from netweave.formats.chainer.standin.functions import (
    activation,
    arithmetic,
    array,
    connection,
    loss,
    normalisation,
    order,
    pooling,
)
from netweave.formats.chainer.standin.registry import FUNCTIONS

__all__ = [
    "FUNCTIONS",
    "activation",
    "arithmetic",
    "array",
    "connection",
    "loss",
    "normalisation",
    "order",
    "pooling",
]
