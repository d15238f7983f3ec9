"""Two frameworks' own nets of one name: the weights of one are carried over to the other, and both compared.

Many nets are not one net under their name: what their authors changed is in ``OTHERS``, and Netweave has to
find that these differ. A softmax at the end of one alone is left out, as porters do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import netweave
from netweave import api
from netweave.errors import NetweaveError
from netweave.passes.extract import extract

if TYPE_CHECKING:
    from benchmarks.matrix.theirs import Their

ORDER = ("mxnet", "pytorch", "onnx", "caffe", "chainer", "keras", "tensorflow", "darknet")
"""A net's weights come from the first format that has it and is the same net as others."""

OTHERS = {
    ("lenet", "caffe"): "ReLU in the place of tanh, ten classes",
    ("alexnet", "caffe"): "the net of the paper: LRN and groups, other widths",
    ("alexnet", "chainer"): "LRN, and the widths of the paper without its groups",
    ("alexnet", "tensorflow"): "slim's alexnet_v2: other widths, no padding in the first layer",
    ("alexnet", "darknet"): "other widths, padding in the first layer",
    ("nin", "chainer"): "no rectifier behind the last convolution of each block but those written",
    ("googlenet", "pytorch"): "BatchNorm everywhere, 3x3 for 5x5",
    ("googlenet", "onnx"): "BatchNorm everywhere, 3x3 for 5x5",
    ("googlenet", "tensorflow"): "BatchNorm everywhere, 3x3 for 5x5",
    ("googlenet", "caffe"): "LRN",
    ("googlenet", "chainer"): "LRN, two more outputs",
    ("inception-bn", "tensorflow"): "slim's inception_v2: a separable first convolution",
    ("resnet18", "darknet"): "shortcuts without convolution",
    ("resnet50", "pytorch"): "strides in the 3x3 convolutions",
    ("resnet50", "onnx"): "strides in the 3x3 convolutions",
    ("resnet50", "tensorflow"): "slim's: strides at the end of a stage",
    ("lstm", "mxnet"): "takes the states, and time before batch",
}
"""Nets that are another one than the others of their name, by net and format, and how."""


def partner(net: str, format_: str, formats: list[str]) -> str | None:
    """Return the format whose weights a net is given; None if it is that one, or has no partner.

    Args:
        net: Key of the net.
        format_: The format to give weights to.
        formats: All formats whose frameworks made the net.
    """
    ordered = [other for other in ORDER if other in formats]
    first = next((other for other in ordered if (net, other) not in OTHERS), ordered[0])
    return None if format_ == first else first


def check(a: Their, b: Their) -> dict[str, Any]:
    """Carry weights from one net to the other, or back where that alone is possible, and compare."""
    known = OTHERS.get((b.net, b.format))
    first, second = _without_softmax(a.load(), b.load())
    reasons = []
    for net, port, way in ((first, second, "to B"), (second, first, "to A")):
        try:
            filled = netweave.carry(net, port)
        except NetweaveError as error:
            reasons.append(" ".join(str(error).split()))
            continue
        found = netweave.compare(net, filled)
        return {
            "ok": found.equal and not known,
            "error": found.error,
            "said": found.sentence,
            "facts": {"way": way},
        }
    return {
        "ok": bool(known),
        "said": known or reasons[0],
        "facts": {"other": bool(known), "netweave": reasons[0]},
    }


def _without_softmax(a: netweave.Graph, b: netweave.Graph) -> tuple[netweave.Graph, netweave.Graph]:
    graphs = [api.predicting(graph) for graph in (a, b)]
    ends = [_softmax(graph) for graph in graphs]
    if (ends[0] is None) == (ends[1] is None):
        return graphs[0], graphs[1]
    cut = [graph if end is None else _until(graph, end) for graph, end in zip(graphs, ends, strict=True)]
    return cut[0], cut[1]


def _softmax(graph: netweave.Graph) -> str | None:
    """Return what the softmax reads that a net ends with."""
    made = graph.outputs[0].producer() if len(graph.outputs) == 1 else None
    is_softmax = made is not None and made.op_type == "Softmax"
    return str(made.inputs[0].name) if is_softmax else None


def _until(graph: netweave.Graph, end: str) -> netweave.Graph:
    return extract(graph, inputs=[str(value.name) for value in graph.inputs], outputs=[end])
