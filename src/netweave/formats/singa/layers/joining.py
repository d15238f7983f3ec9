"""Layers of SINGA that join, recur or score."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.formats.lowering import MANY
from netweave.formats.lowering.recurrent import RecurrentCell, recurrent_node, without_state_bias
from netweave.formats.singa.context import Output, SingaLayer, layer
from netweave.formats.singa.inputs import InputLayer
from netweave.graph import DOMAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from netweave.files.protobuf import Message


def _axis(ctx: SingaLayer, settings: Message, name: str, value: ir.Value) -> int:
    axis: int = settings[name]
    rank = ctx.rank(value)
    if not 0 <= axis < rank:
        raise ctx.read_error(f"{name!r} is {axis}, expected 0 to {rank - 1}", settings.line_of(name))
    return axis


@layer("kConcate", sources=(2, MANY))
def concatenate(ctx: SingaLayer) -> Output:
    """The sources one after the other along an axis; 0 is the batch."""
    values = [ctx.data(index) for index in range(len(ctx.sources))]
    settings = ctx.spec["concate_conf"]
    axis = _axis(ctx, settings, "concate_dim", values[0])
    shapes = [ctx.shape(value) for value in values]
    if len({(*shape[:axis], 0, *shape[axis + 1 :]) for shape in shapes}) > 1:
        raise ctx.shape_error(f"its sources must have the same shape except on axis {axis}, found {shapes}")
    return Output([ctx.add_output("Concat", values, {"axis": axis})])


@layer("kSlice")
def slice_(ctx: SingaLayer) -> Output:
    """Equal parts along an axis, one for each layer that reads them, in the order of the file."""
    settings, x = ctx.spec["slice_conf"], ctx.data()
    axis, count = _axis(ctx, settings, "slice_dim", x), settings["num_slices"]
    if count != ctx.readers or count < 1:
        raise ctx.read_error(
            f"'num_slices' is {count}, but {ctx.readers} layers read it; expected one part for each",
            settings.line_of("num_slices"),
        )
    if ctx.size(axis, x) % count:
        raise ctx.shape_error(
            f"cannot cut {ctx.size(axis, x)} elements of axis {axis} into {count} equal parts"
        )
    if count == 1:
        return Output([x])
    names = [f"{ctx.unit.name}/{part}" for part in range(count)]
    return Output(ctx.add_many("Split", [x], {"axis": axis, "num_outputs": count}, outputs=names))


@layer("kSplit", "kDummy", "kRNNDummy")
def passed_on(ctx: SingaLayer) -> Output:
    """Its source, for every layer that reads it."""
    return Output([ctx.data()])


@layer("kRNNLabel")
def next_character(ctx: SingaLayer) -> Output:
    """The characters of the next step, as labels."""
    source = ctx.sources[0]
    if not isinstance(source, InputLayer):
        raise ctx.read_error(f"reads {ctx.unit.sources[0]!r}, expected a kCharRNN")
    value = source.data(ctx.unit.index + 1)
    ctx.builder.rename(value, ctx.unit.name)
    ctx.read.append(source.unit.name)
    return Output([value], labels=value)


@layer("kSoftmaxLoss", "kCudnnSoftmaxLoss", sources=2)
def softmax_loss(ctx: SingaLayer) -> Output:
    """Softmax and minus the logarithm at the labels, over the batch, times ``scale``; with the share of hits.

    A class that ties with the label's counts against it; SINGA prefers the one of the larger number. cuDNN's
    has no ``scale`` and no hits.
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
        {"axis": 1, "normalization": "BATCH_SIZE"},
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
    attributes = {"axis": 1, "top_k": top_k, "ignore_label": None}
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


_CELL = RecurrentCell("GRU", linear_before_reset=True)


@layer("kGRU", sources=(1, 2))
def gru(ctx: SingaLayer) -> Output:
    """One step: z, r and c, with r after the product of the state, as ONNX with ``linear_before_reset``.

    Parameters: the input's matrices of z, r and c, the state's, and perhaps the three biases. Without a copy
    before, the state is zero.
    """
    settings = ctx.spec["gru_conf"]
    hidden = ctx.positive_field(settings, "dim_hidden")
    count = ctx.expect_parameters(
        [6, 9], "three matrices of the input, three of the state, perhaps three biases"
    )
    x, size = ctx.rows()
    state = None
    if len(ctx.sources) == 2:
        before, num_states = ctx.rows(1)
        if num_states != hidden:
            raise ctx.shape_error(f"the state that it reads has {num_states} elements, expected {hidden}")
        state = ctx.unsqueeze(before, [0])
    weights = [
        _matrix(ctx, range(3), (hidden, size)),
        _matrix(ctx, range(3, 6), (hidden, hidden)),
        _bias(ctx, hidden) if count == 9 else None,
    ]
    _, (last,) = recurrent_node(
        ctx, _CELL, ctx.unsqueeze(x, [0]), weights, hidden_size=hidden, states=[state]
    )
    return Output([ctx.add_output("Squeeze", [last, ctx.integers([0])])])


def _matrix(ctx: SingaLayer, numbers: Sequence[int], shape: tuple[int, int]) -> ir.Value:
    """Return three matrices as one, [1, 3 * rows, columns]; copies share it."""
    layout = [("reshape", (1, *shape))]
    parts = [ctx.parameter(number, shape, "weight", layout=layout) for number in numbers]
    return _shared(ctx, parts, lambda: ctx.concat(parts, 1))


def _bias(ctx: SingaLayer, hidden: int) -> ir.Value:
    """Return the biases of the input's products, and zeros for the state's: [1, 6 * hidden]."""
    layout = [("reshape", (1, hidden))]
    parts = [ctx.parameter(number, (hidden,), "bias", layout=layout) for number in (6, 7, 8)]
    return _shared(ctx, parts, lambda: without_state_bias(ctx, parts, 3 * hidden))


def _shared(ctx: SingaLayer, parts: Sequence[ir.Value], join: Callable[[], ir.Value]) -> ir.Value:
    """Return several arrays as one, which all unrolled copies of a layer read."""
    key = tuple(part.name or "" for part in parts)
    if key not in ctx.joined:
        ctx.joined[key] = join()
    return ctx.joined[key]
