"""Losses, metrics and outputs: ``loss_layer/*.cc``, ``output_layer/*.cc``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.singa.call import Call, Made, layer
from netweave.graph import DOMAIN

if TYPE_CHECKING:
    import onnx_ir as ir

_FLOAT = 1
"""ONNX's number of the type."""


@layer("kSoftmaxLoss", "kCudnnSoftmaxLoss", sources=2)
def softmax_loss(call: Call) -> Made:
    """Softmax and minus the logarithm at the labels, over the batch, times ``scale``; with the share of hits.

    A class that ties with the label's counts against it; SINGA prefers the one of the larger number. cuDNN's
    has no ``scale`` and no hits.
    """
    settings = call.spec["softmaxloss_conf"]
    plain = call.spec["type"] == "kCudnnSoftmaxLoss"
    scale = 1.0 if plain else settings["scale"]
    name = call.unit.name
    x, _ = call.rows()
    labels = call.label()
    loss, probabilities = call.builder.add_many(
        "SoftmaxWithLoss",
        [x, labels],
        {"axis": 1, "normalization": "BATCH_SIZE"},
        domain=DOMAIN,
        outputs=[name if scale == 1 else "", f"{name}/probability"],
    )
    loss = _scaled(call, loss, scale, name)
    results = {"loss": loss}
    if not plain:
        hits = _accuracy(call, x, labels, settings["topk"], "" if scale != 1 else f"{name}/accuracy")
        results["accuracy"] = _scaled(call, hits, scale, f"{name}/accuracy")
    return Made([probabilities], results=results, losses={loss.name or name: 1.0})


def _scaled(call: Call, value: ir.Value, scale: float, name: str) -> ir.Value:
    if scale == 1:
        return value
    return call.builder.add("Mul", [value, call.builder.constant(scale)], outputs=name)


@layer("kEuclideanLoss", sources=2)
def euclidean_loss(call: Call) -> Made:
    """The sum of squared differences over the batch; SINGA's gradient is that of half of it."""
    name = call.unit.name
    half = call.builder.add(
        "EuclideanLoss", [call.data(0), call.data(1)], domain=DOMAIN, outputs=f"{name}/half"
    )
    loss = call.add("Mul", [half, call.builder.constant(2.0)])
    return Made(results={"loss": loss}, losses={half.name or name: 1.0})


@layer("kAccuracy", sources=2)
def accuracy(call: Call) -> Made:
    """The share of labels among the ``topk`` best of the first source."""
    x, _ = call.rows()
    made = _accuracy(call, x, call.label(), call.spec["argsort_conf"]["topk"], call.unit.name)
    return Made([made], results={"accuracy": made})


def _accuracy(call: Call, x: ir.Value, labels: ir.Value, top_k: int, name: str) -> ir.Value:
    if not 1 <= top_k <= call.size(x, 1):
        raise call.wrong(f"'topk' is {top_k}, expected 1 to {call.size(x, 1)}")
    attributes = {"axis": 1, "top_k": top_k, "ignore_label": None}
    return call.builder.add_many("Accuracy", [x, labels], attributes, domain=DOMAIN, outputs=[name, ""])[0]


@layer("kArgSort")
def arg_sort(call: Call) -> Made:
    """The numbers of the ``topk`` largest elements of each row, as floats; the largest first."""
    x, size = call.rows()
    settings = call.spec["argsort_conf"]
    top_k = settings["topk"]
    if not 1 <= top_k <= size:
        raise call.wrong(f"'topk' is {top_k}, expected 1 to {size}", settings.line)
    count = call.builder.constant([top_k], dtype="int64")
    _, places = call.builder.add_many("TopK", [x, count], {"axis": 1}, outputs=["", ""])
    return Made([call.add("Cast", [places], {"to": _FLOAT})])


@layer("kCSVOutput", "kRecordOutput", "kCharRNNOutput")
def written(call: Call) -> Made:
    """Writes its source to a file; here it is an output of the net."""
    return Made(results={"data": call.data()})
