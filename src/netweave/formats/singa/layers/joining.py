"""Layers of SINGA that join, slice or split."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.formats.lowering import MANY
from netweave.formats.singa.context import Output, SingaLayer, layer
from netweave.formats.singa.inputs import InputLayer

if TYPE_CHECKING:
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
