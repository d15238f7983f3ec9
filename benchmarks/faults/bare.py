"""Nets as people have them without weights, and the faults that cannot be seen then.

Nothing here imports Netweave.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING

import onnx

from benchmarks.faults.model import Net

if TYPE_CHECKING:
    from benchmarks.faults.model import Files

_VALUES = "only the values of an array change"
_ORDER = "only the order of the values in an array changes"

UNSEEN: Mapping[str, str] = {
    "one weight changed": _VALUES,
    "wrong weights loaded": _VALUES,
    "wrong constant": _VALUES,
    "bias lost": "the bias is still there, and zero",
    "bn: gamma as 1": "gamma is still there, and one",
    "bn: scale factor": "the factor is stored with the statistics",
    "prelu: slopes": _VALUES,
    "channel order": _ORDER,
    "axis order": _ORDER,
    "flatten order": _ORDER,
    "first layer: transposed": _ORDER,
    "first layer: mirrored": _ORDER,
    "first layer: filter doubled": _VALUES,
    "first layer: filters swapped": _ORDER,
}
"""Kinds of faults that are in stored arrays alone, and why: without weights, the net is the right one."""


UNSEEN_WHERE_FOLDED: Mapping[str, str] = {
    "bn: eps": "the other form has eps in its filters",
    "bn: fix_gamma": "the other form has gamma in its filters",
    "layer left out": "the other form has the normalisation in its filters",
    "layer twice": "the other form has the normalisation in its filters",
    "layer order": "the other form has the normalisation in its filters",
}
"""Kinds of faults in a normalisation that cannot be seen beside a form in which it is folded, and why."""


UNDECIDABLE: Mapping[str, str] = {
    "bn: fix_gamma": "the gammas of the other net, which has no weights either, may be ones",
    "layer left out": "a filter with a bias may hold the normalisation behind it",
    "layer twice": "a filter with a bias may hold the normalisation behind it",
    "flatten: channels last": "the columns of the dense weights may stand in that order",
}
"""Kinds of faults that the weights of B may make up for, and why: they are told beside *same structure*."""


def bare(net: Net) -> Net:
    """Return a net without its weights.

    Caffe's prototxt, MXNet's symbol, Darknet's cfg and the source of PyTorch alone. ONNX has no file without
    weights: its arrays become zeros, which tell nothing; what reads the net draws others.
    """
    name = next(iter(net.files))
    files = _zeros(net.files) if net.format == "onnx" else {name: net.files[name]}
    return Net(net.format, files, net.inputs)


def _zeros(files: Files) -> Files:
    model = onnx.load_from_string(files["net.onnx"])
    del model.graph.value_info[:]
    names = weights_of(model)
    for array in model.graph.initializer:
        if array.name in names:
            kept = onnx.TensorProto(name=array.name, dims=array.dims, data_type=array.data_type)
            kept.raw_data = bytes(4 * prod(array.dims))
            array.CopyFrom(kept)
    return {"net.onnx": model.SerializeToString()}


def weights_of(model: onnx.ModelProto) -> frozenset[str]:
    """Return the arrays of an ONNX net that are weights: neither a single number nor a size."""
    settings = {name for node in model.graph.node if node.op_type == "Resize" for name in node.input}
    return frozenset(
        array.name
        for array in model.graph.initializer
        if array.data_type == onnx.TensorProto.FLOAT and array.dims and array.name not in settings
    )
