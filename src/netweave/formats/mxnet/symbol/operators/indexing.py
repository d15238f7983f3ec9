"""Indexing, constants and random draws of MXNet."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isfinite
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.formats.lowering.indexing import LARGEST, SMALLEST
from netweave.formats.mxnet.symbol.registry import operator_reader
from netweave.formats.mxnet.symbol.settings import Settings
from netweave.formats.mxnet.symbol.variables import onnx_dtype

if TYPE_CHECKING:
    from netweave.formats.mxnet.symbol.context import MXNetOperator


@operator_reader("slice", "crop")
def cut(ctx: MXNetOperator) -> ir.Value:
    """From ``begin`` to ``end`` by ``step`` along the first axes; None is an open end."""
    begin, end = ctx.settings.bounds("begin"), ctx.settings.bounds("end")
    step = [s or 1 for s in ctx.settings.bounds("step", ())] or [1] * len(begin)
    if not len(begin) == len(end) == len(step):
        raise ctx.read_error(
            f"begin {begin}, end {end} and step {step} have different lengths, expected the same"
        )
    starts = [(0 if s > 0 else LARGEST) if b is None else b for b, s in zip(begin, step, strict=True)]
    ends = [(LARGEST if s > 0 else SMALLEST) if e is None else e for e, s in zip(end, step, strict=True)]
    return ctx.slice(ctx.x, starts, ends, range(len(begin)), step)


@operator_reader("slice_axis")
def slice_axis(ctx: MXNetOperator) -> ir.Value:
    """From ``begin`` to ``end`` along one axis."""
    settings = ctx.settings
    begin, axis, end = settings.integer("begin"), settings.integer("axis"), settings.integer("end", None)
    return ctx.slice(ctx.x, [begin], [LARGEST if end is None else end], [axis])


@operator_reader("slice_like", arguments=("data", "shape_like"))
def slice_like(ctx: MXNetOperator) -> ir.Value:
    """To the sizes of the second input, along all or the given axes."""
    x, like = ctx.x, ctx.input("shape_like")
    rank = ctx.rank(x)
    axes = [ctx.axis(axis, rank) for axis in ctx.settings.integers("axes", ())] or list(range(rank))
    sizes = ctx.add("Gather", [ctx.add("Shape", [like]), ctx.integers(axes)])
    return ctx.add("Slice", [x, ctx.integers([0] * len(axes)), sizes, ctx.integers(axes)])


def _crop_arguments(settings: Settings) -> Sequence[str]:
    return ("data", "crop_like") if settings.count("num_args") == 2 else ("data",)


@operator_reader("Crop", arguments=_crop_arguments, counted=True)
def crop(ctx: MXNetOperator) -> ir.Value:
    """Height and width cut to ``h_w`` or to those of a second input, at ``offset`` or in the centre."""
    settings = ctx.settings
    offset, wanted = settings.per_axis("offset", 2, 0), settings.per_axis("h_w", 2, 0)
    centre = settings.flag("center_crop", False)
    x = ctx.x
    if not ctx.has("crop_like"):
        sizes = list(wanted)
    elif centre or None not in ctx.shape(ctx.input("crop_like"))[2:]:
        sizes = ctx.sizes((2, 3), ctx.input("crop_like"))
    else:
        return _crop_to_open_size(ctx, x, offset)
    if centre:
        offset = tuple((own - size) // 2 for own, size in zip(ctx.sizes((2, 3)), sizes, strict=True))
    ends = [begin + size for begin, size in zip(offset, sizes, strict=True)]
    return ctx.slice(x, offset, ends, (2, 3))


def _crop_to_open_size(ctx: MXNetOperator, x: ir.Value, offset: Sequence[int]) -> ir.Value:
    sizes = ctx.add("Shape", [ctx.input("crop_like")], {"start": 2, "end": 4})
    begin = ctx.integers(offset)
    return ctx.add("Slice", [x, begin, ctx.add("Add", [begin, sizes]), ctx.integers([2, 3])])


@operator_reader("Embedding", "_contrib_SparseEmbedding", arguments=("data", "weight"))
def embedding(ctx: MXNetOperator) -> ir.Value:
    """Rows of a table; numbers beyond its ends take the first or last row."""
    settings = ctx.settings
    rows, columns = settings.count("input_dim"), settings.count("output_dim")
    settings.ignore("dtype", "sparse_grad", "deterministic")
    places = _places(ctx, ctx.x, rows, "clip")
    return ctx.add("Gather", [ctx.parameter("weight", (rows, columns)), places], {"axis": 0})


@operator_reader("take", arguments=("a", "indices"))
def take(ctx: MXNetOperator) -> ir.Value:
    """Slices of the first input at the places in the second."""
    axis = ctx.settings.integer("axis", 0)
    mode = ctx.settings.choice("mode", ("clip", "wrap", "raise"), "clip")
    a = ctx.input("a")
    axis = ctx.axis(axis, ctx.rank(a))
    places = _places(ctx, ctx.input("indices"), _size(ctx, a, axis), mode)
    return ctx.add("Gather", [a, places], {"axis": axis})


@operator_reader("pick", "choose_element_0index", arguments=("data", "index"))
def pick(ctx: MXNetOperator) -> ir.Value:
    """One element along an axis for each place of the others."""
    settings = ctx.settings
    mode = settings.choice("mode", ("clip", "wrap"), "clip")
    keep = settings.flag("keepdims", False)
    x = ctx.x
    shape = ctx.shape(x)
    axis = ctx.axis(settings.integer("axis", -1), len(shape))
    index = ctx.input("index", default=(*shape[:axis], *shape[axis + 1 :]))
    places = _places(ctx, index, _size(ctx, x, axis), mode)
    if ctx.rank(index) < len(shape):
        places = ctx.unsqueeze(places, [axis])
    picked = ctx.add("GatherElements", [x, places], {"axis": axis})
    return picked if keep else ctx.squeeze(picked, [axis])


@operator_reader("batch_take", arguments=("a", "indices"))
def batch_take(ctx: MXNetOperator) -> ir.Value:
    """One element of each row."""
    a = ctx.input("a")
    indices = ctx.input("indices", default=ctx.shape(a)[:1])
    places = _places(ctx, indices, _size(ctx, a, 1), "clip")
    column = ctx.add("GatherElements", [a, ctx.unsqueeze(places, [1])], {"axis": 1})
    return ctx.squeeze(column, [1])


@operator_reader("gather_nd", arguments=("data", "indices"))
def gather_nd(ctx: MXNetOperator) -> ir.Value:
    """Elements or slices at places whose coordinates stand along axis 0."""
    indices = ctx.cast(ctx.input("indices"), ir.DataType.INT64)
    last = ctx.transpose(indices, [*range(1, ctx.rank(indices)), 0])
    return ctx.add("GatherND", [ctx.x, last])


@operator_reader("one_hot", arguments=("indices",))
def one_hot(ctx: MXNetOperator) -> ir.Value:
    """``on_value`` at the place of each number, ``off_value`` elsewhere; nothing outside the depth."""
    settings = ctx.settings
    depth = settings.count("depth")
    dtype = onnx_dtype(settings.dtype("dtype", "float32"))
    column = ctx.unsqueeze(ctx.cast(ctx.x, ir.DataType.INT64), [-1])
    hit = ctx.add("Equal", [column, ctx.array(ctx.arange(depth))])
    values = [
        np.asarray(settings.number(f"{name}_value", default), dtype.numpy())
        for name, default in (("on", 1.0), ("off", 0.0))
    ]
    return ctx.add("Where", [hit, *map(ctx.array, values)])


@operator_reader("where", arguments=("condition", "x", "y"))
def where(ctx: MXNetOperator) -> ir.Value:
    """Elements of one or the other input; a condition of one axis chooses rows."""
    x, y = ctx.input("x"), ctx.input("y")
    rank = ctx.rank(x)
    condition = ctx.cast(ctx.input("condition", default=ctx.shape(x)), ir.DataType.BOOL)
    if ctx.rank(condition) == 1 < rank:
        condition = ctx.unsqueeze(condition, range(1, rank))
    return ctx.add("Where", [condition, x, y])


def _size(ctx: MXNetOperator, x: ir.Value, axis: int) -> int | ir.Value:
    """Return a size of a value; where it is open, as a number that the net computes."""
    size = ctx.open_size(axis, x)
    return ctx.add("Gather", [ctx.add("Shape", [x]), _number(ctx, axis)]) if size is None else size


def _places(ctx: MXNetOperator, indices: ir.Value, size: int | ir.Value, mode: str) -> ir.Value:
    """Return numbers as places along an axis of the given size."""
    whole = ctx.cast(indices, ir.DataType.INT64)
    if mode == "raise":
        return whole
    if mode == "wrap":
        return ctx.add("Mod", [whole, _number(ctx, size) if isinstance(size, int) else size])
    last = _number(ctx, size - 1) if isinstance(size, int) else ctx.add("Sub", [size, _number(ctx, 1)])
    return ctx.add("Clip", [whole, _number(ctx, 0), last])


def _number(ctx: MXNetOperator, number: int) -> ir.Value:
    return ctx.array(np.asarray(number, np.int64))


FILLS = {"_zeros": 0.0, "_ones": 1.0}


@operator_reader("_zeros", "_ones", "_full", arguments=())
def filled(ctx: MXNetOperator) -> ir.Value:
    """One number everywhere; an open size becomes 1, which broadcasts."""
    settings = ctx.settings
    settings.ignore("ctx")
    value = FILLS[ctx.op] if ctx.op in FILLS else settings.number("value")
    dtype = onnx_dtype(settings.dtype("dtype", "float32"))
    wanted = settings.integers("shape", ())
    sizes = [size if size > 0 else 1 for size in wanted]
    if sizes != list(wanted):
        ctx.note_open_fill()
    fill = ir.tensor(np.asarray([value], dtype.numpy()))
    return ctx.add("ConstantOfShape", [ctx.integers(sizes)], {"value": fill})


@operator_reader("_arange", arguments=())
def arange(ctx: MXNetOperator) -> ir.Value:
    """Numbers from ``start`` to before ``stop``, each ``repeat`` times."""
    settings = ctx.settings
    settings.ignore("ctx")
    start, stop = settings.number("start", 0.0), settings.number("stop", None)
    step, times = settings.number("step", 1.0), settings.count("repeat", 1)
    dtype = onnx_dtype(settings.dtype("dtype", "float32"))
    if settings.flag("infer_range", False):
        raise ctx.unsupported("infer_range=True is not supported")
    if stop is None:
        start, stop = 0.0, start
    if not (isfinite(start) and isfinite(stop) and isfinite(step) and step):
        raise ctx.read_error(f"counts from {start} to {stop} by {step}, expected finite numbers and a step")
    ctx.arange(ceil((stop - start) / step) * times)
    return ctx.array(np.repeat(np.arange(start, stop, step).astype(dtype.numpy()), times))


@operator_reader("_contrib_arange_like")
def arange_like(ctx: MXNetOperator) -> ir.Value:
    """Numbers from ``start`` on, as many as the input has along an axis."""
    settings = ctx.settings
    settings.ignore("ctx")
    start, step = settings.number("start", 0.0), settings.number("step", 1.0)
    axis = settings.integer("axis", None)
    if axis is None or settings.integer("repeat", 1) != 1:
        raise ctx.unsupported("without an axis, or with repeat, it is not supported")
    size = ctx.size(axis)
    return ctx.array((start + step * ctx.arange(size)).astype(np.float32))


@operator_reader("_contrib_div_sqrt_dim")
def div_sqrt_dim(ctx: MXNetOperator) -> ir.Value:
    """Divided by the root of the last size."""
    return ctx.add("Div", [ctx.x, ctx.scalar(ctx.size(-1) ** 0.5, ctx.x)])


def _uniform(ctx: MXNetOperator, low: float, high: float) -> ir.Value:
    """Draw evenly, in the shape that the settings ask for."""
    settings = ctx.settings
    settings.ignore("ctx", "dtype")
    shape = [size if size > 0 else 1 for size in settings.integers("shape", (1,))]
    return ctx.add("RandomUniform", [], {"low": low, "high": high, "shape": shape or [1]})


def _typed(ctx: MXNetOperator, value: ir.Value, default: str = "float32") -> ir.Value:
    name = ctx.settings.string("dtype", default)
    dtype = onnx_dtype(default if name == "None" else name)
    return value if dtype == value.dtype else ctx.add("Cast", [value], {"to": int(dtype)})


@operator_reader("_random_uniform", "random_uniform", "uniform", arguments=())
def random_uniform(ctx: MXNetOperator) -> ir.Value:
    """Drawn evenly from ``low`` to ``high``."""
    settings = ctx.settings
    return _typed(ctx, _uniform(ctx, settings.number("low", 0.0), settings.number("high", 1.0)))


@operator_reader("_random_normal", "random_normal", "normal", arguments=())
def random_normal(ctx: MXNetOperator) -> ir.Value:
    """Drawn from a normal distribution."""
    settings = ctx.settings
    settings.ignore("ctx")
    shape = [size if size > 0 else 1 for size in settings.integers("shape", (1,))] or [1]
    scale = {"mean": settings.number("loc", 0.0), "scale": settings.number("scale", 1.0), "shape": shape}
    return _typed(ctx, ctx.add("RandomNormal", [], scale))


@operator_reader("_random_exponential", "random_exponential", arguments=())
def random_exponential(ctx: MXNetOperator) -> ir.Value:
    """Drawn from an exponential distribution: the logarithm of what is drawn evenly."""
    evenly = _uniform(ctx, 0.0, 1.0)
    rate = ctx.settings.number("lam", 1.0)
    # 1 - u, since u may be 0 and is never 1
    logarithm = ctx.add("Log", [ctx.add("Sub", [ctx.scalar(1.0, evenly), evenly])])
    return _typed(ctx, ctx.add("Div", [logarithm, ctx.scalar(-rate, evenly)]))


@operator_reader("_random_randint", "random_randint", arguments=())
def random_randint(ctx: MXNetOperator) -> ir.Value:
    """Whole numbers from ``low`` to before ``high``."""
    settings = ctx.settings
    low, high = settings.number("low"), settings.number("high")
    return _typed(ctx, ctx.add("Floor", [_uniform(ctx, low, high)]), "int32")


@operator_reader("_random_uniform_like", "random_uniform_like")
def random_uniform_like(ctx: MXNetOperator) -> ir.Value:
    """Drawn evenly, in the shape of the input."""
    settings = ctx.settings
    bounds = {"low": settings.number("low", 0.0), "high": settings.number("high", 1.0)}
    return ctx.add("RandomUniformLike", [ctx.x], bounds)


@operator_reader("_random_normal_like", "random_normal_like")
def random_normal_like(ctx: MXNetOperator) -> ir.Value:
    """Drawn from a normal distribution, in the shape of the input."""
    settings = ctx.settings
    scale = {"mean": settings.number("loc", 0.0), "scale": settings.number("scale", 1.0)}
    return ctx.add("RandomNormalLike", [ctx.x], scale)


@operator_reader("_sample_multinomial", "sample_multinomial")
def sample_multinomial(ctx: MXNetOperator) -> ir.Value:
    """Class numbers, drawn by the probabilities in the last axis."""
    settings = ctx.settings
    if settings.flag("get_prob", False):
        raise ctx.unsupported("get_prob=True is not supported in a symbol; use mx.nd.random.multinomial")
    wanted = settings.integers("shape", ())
    x = ctx.x
    lead = ctx.sizes(range(ctx.rank(x) - 1))
    count = int(np.prod(wanted, dtype=int))
    logarithms = ctx.add("Log", [x])
    flat = ctx.add("Reshape", [logarithms, ctx.integers([-1, ctx.size(-1)])])
    drawn = ctx.add("Multinomial", [flat], {"sample_size": count, "dtype": 6})
    return _typed(ctx, ctx.add("Reshape", [drawn, ctx.integers([*lead, *wanted])]), "int32")
