"""One function for each type of layer, one file for each family; importing this registers them all."""

from netweave.formats.caffe.context import LAYERS
from netweave.formats.caffe.layers import (
    activation,
    arithmetic,
    convolution,
    dense,
    detection,
    losses,
    normalisation,
    pooling,
    proposals,
    rearranging,
    recurrent,
    reduction,
    resizing,
    scaled_norm,
    shape,
    volume,
)

__all__ = [
    "LAYERS",
    "activation",
    "arithmetic",
    "convolution",
    "dense",
    "detection",
    "losses",
    "normalisation",
    "pooling",
    "proposals",
    "rearranging",
    "recurrent",
    "reduction",
    "resizing",
    "scaled_norm",
    "shape",
    "volume",
]
