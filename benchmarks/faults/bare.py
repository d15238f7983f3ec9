"""Nets as people have them without weights, and the faults that cannot be seen then.

Nothing here imports Netweave.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
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


def bare(net: Net) -> Net | None:
    """Return a net without its weights; None where its format cannot leave them out.

    Caffe's prototxt, MXNet's symbol, Darknet's cfg and the source of Chainer and PyTorch alone; of a Keras
    file the configuration; of a frozen graph of TensorFlow the graph before it was frozen. ONNX has no file
    without weights: its arrays become zeros, which tell nothing; what reads the net draws others.
    """
    files = BARE.get(net.format, _first)(net.files)
    return None if files is None else Net(net.format, files, net.inputs)


def _first(files: Files) -> Files:
    name = next(iter(files))
    return {name: files[name]}


def _configuration(files: Files) -> Files:
    with zipfile.ZipFile(io.BytesIO(files["net.keras"])) as archive:
        return {"net.json": archive.read("config.json")}


def _unfrozen(files: Files) -> Files | None:
    """Return the graph with the variables that freezing made constants; None if it has none left."""
    from tensorboard.compat.proto import graph_pb2, types_pb2

    graph = graph_pb2.GraphDef.FromString(files["net.pb"])
    readers: dict[str, set[str]] = {}
    for node in graph.node:
        for source in node.input:
            readers.setdefault(source, set()).add(node.op)
    variables = [
        node
        for node in graph.node
        if node.op == "Const"
        and readers.get(node.name) == {"Identity"}
        and node.attr["dtype"].type == types_pb2.DT_FLOAT
        and node.attr["value"].tensor.tensor_shape.dim
    ]
    for node in variables:
        node.op = "VariableV2"
        node.attr["shape"].shape.CopyFrom(node.attr["value"].tensor.tensor_shape)
        node.attr["container"].s = node.attr["shared_name"].s = b""
        del node.attr["value"]
    return {"net.pb": graph.SerializeToString(deterministic=True)} if variables else None


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


BARE: Mapping[str, Callable[[Files], Files | None]] = {
    "keras": _configuration,
    "tensorflow": _unfrozen,
    "onnx": _zeros,
}
"""What is left of a net's files, by format; of the others it is the first file."""
