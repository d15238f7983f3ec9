"""``chainer.functions``, one file for each family; importing this registers them all."""

from netweave.formats.chainer.shim.functions import (
    activation,
    arithmetic,
    array,
    connection,
    loss,
    normalisation,
    order,
    pooling,
)
from netweave.formats.chainer.shim.registry import FUNCTIONS

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
