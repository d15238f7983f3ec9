"""Losses, metrics and outputs: ``loss_layer/*.cc``, ``output_layer/*.cc``."""

from __future__ import annotations

import onnx_ir as ir

from netweave.formats.singa.context import Output, SingaLayer, layer
from netweave.graph import DOMAIN
from netweave.graph.ops.losses import SMALLEST


@layer("kSoftmaxLoss", "kCudnnSoftmaxLoss", sources=2)
def softmax_loss(ctx: SingaLayer) -> Output:
    """Softmax and minus the logarithm at the labels, over the batch, times ``scale``; with the share of hits.

    Of classes that tie, the one of the largest number comes first. cuDNN's has no ``scale`` and no hits.
    """
    settings = ctx.spec["softmaxloss_conf"]
    plain = ctx.spec["type"] == "kCudnnSoftmaxLoss"
    scale = 1.0 if plain else settings["scale"]
    name = ctx.unit.name
    x, _ = ctx.rows()
    labels = ctx.label()
    loss, probabilities = ctx.add_many(
        "SoftmaxWithLoss",
        [x, labels],
        {"axis": 1, "normalization": "BATCH_SIZE", "min_probability": SMALLEST},
        domain=DOMAIN,
        outputs=[name if scale == 1 else "", f"{name}/probability"],
    )
    loss = _scaled(ctx, loss, scale, name)
    results = {"loss": loss}
    if not plain:
        hits = _accuracy(ctx, x, labels, settings["topk"], "" if scale != 1 else f"{name}/accuracy")
        results["accuracy"] = _scaled(ctx, hits, scale, f"{name}/accuracy")
    return Output([probabilities], results=results, losses={loss.name or name: 1.0})


def _scaled(ctx: SingaLayer, value: ir.Value, scale: float, name: str) -> ir.Value:
    if scale == 1:
        return value
    return ctx.add("Mul", [value, ctx.constant(scale)], name=name)


@layer("kEuclideanLoss", sources=2)
def euclidean_loss(ctx: SingaLayer) -> Output:
    """The sum of squared differences over the batch; SINGA's gradient is that of half of it."""
    name = ctx.unit.name
    half = ctx.add("EuclideanLoss", [ctx.data(0), ctx.data(1)], domain=DOMAIN, name=f"{name}/half")
    loss = ctx.add_output("Mul", [half, ctx.constant(2.0)])
    return Output(results={"loss": loss}, losses={half.name or name: 1.0})


@layer("kAccuracy", sources=2)
def accuracy(ctx: SingaLayer) -> Output:
    """The share of labels among the ``topk`` best of the first source."""
    x, _ = ctx.rows()
    made = _accuracy(ctx, x, ctx.label(), ctx.spec["argsort_conf"]["topk"], ctx.unit.name)
    return Output([made], results={"accuracy": made})


def _accuracy(ctx: SingaLayer, x: ir.Value, labels: ir.Value, top_k: int, name: str) -> ir.Value:
    if not 1 <= top_k <= ctx.size(1, x):
        raise ctx.read_error(f"'topk' is {top_k}, expected 1 to {ctx.size(1, x)}")
    attributes = {"axis": 1, "top_k": top_k, "ignore_label": None, "ties": "highest"}
    return ctx.add_many("Accuracy", [x, labels], attributes, domain=DOMAIN, outputs=[name, ""])[0]


@layer("kArgSort")
def arg_sort(ctx: SingaLayer) -> Output:
    """The numbers of the ``topk`` largest elements of each row, as floats; the largest first."""
    x, size = ctx.rows()
    settings = ctx.spec["argsort_conf"]
    top_k = settings["topk"]
    if not 1 <= top_k <= size:
        raise ctx.read_error(f"'topk' is {top_k}, expected 1 to {size}", settings.line)
    count = ctx.integers([top_k])
    _, places = ctx.add_many("TopK", [x, count], {"axis": 1}, outputs=2)
    return Output([ctx.add_output("Cast", [places], {"to": ir.DataType.FLOAT})])


@layer("kCSVOutput", "kRecordOutput", "kCharRNNOutput")
def written(ctx: SingaLayer) -> Output:
    """Writes its source to a file; here it is an output of the net."""
    return Output(results={"data": ctx.data()})
