"""Layers that join and part values: ``concate.cc``, ``slice.cc``, ``dummy.cc``, ``rnn_label.cc``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.singa.call import MANY, Call, Made, layer
from netweave.formats.singa.inputs import Feed

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.files.protobuf import Message


def _axis(call: Call, settings: Message, name: str, value: ir.Value) -> int:
    axis: int = settings[name]
    rank = len(call.shape(value))
    if not 0 <= axis < rank:
        raise call.wrong(f"{name!r} is {axis}, expected 0 to {rank - 1}", settings.line_of(name))
    return axis


@layer("kConcate", sources=(2, MANY))
def concatenate(call: Call) -> Made:
    """The sources one after the other along an axis; 0 is the batch."""
    values = [call.data(index) for index in range(len(call.sources))]
    settings = call.spec["concate_conf"]
    axis = _axis(call, settings, "concate_dim", values[0])
    shapes = [call.shape(value) for value in values]
    if len({(*shape[:axis], 0, *shape[axis + 1 :]) for shape in shapes}) > 1:
        raise call.wrong_shape(f"its sources must be of one size but for axis {axis}, found {shapes}")
    return Made([call.add("Concat", values, {"axis": axis})])


@layer("kSlice")
def slice_(call: Call) -> Made:
    """Equal parts along an axis, one for each layer that reads them, in the order of the file."""
    settings, x = call.spec["slice_conf"], call.data()
    axis, count = _axis(call, settings, "slice_dim", x), settings["num_slices"]
    if count != call.readers or count < 1:
        raise call.wrong(
            f"'num_slices' is {count}, but {call.readers} layers read it; expected one part for each",
            settings.line_of("num_slices"),
        )
    if call.size(x, axis) % count:
        raise call.wrong_shape(
            f"cannot cut {call.size(x, axis)} elements of axis {axis} into {count} equal parts"
        )
    if count == 1:
        return Made([x])
    names = [f"{call.unit.name}/{part}" for part in range(count)]
    return Made(call.builder.add_many("Split", [x], {"axis": axis, "num_outputs": count}, outputs=names))


@layer("kSplit", "kDummy", "kRNNDummy")
def passed_on(call: Call) -> Made:
    """Its source, for every layer that reads it."""
    return Made([call.data()])


@layer("kRNNLabel")
def next_character(call: Call) -> Made:
    """The characters of the next step, as labels."""
    source = call.sources[0]
    if not isinstance(source, Feed):
        raise call.wrong(f"reads {call.unit.sources[0]!r}, expected a kCharRNN")
    value = source.data(call.unit.index + 1)
    call.builder.rename(value, call.unit.name)
    call.read.append(source.unit.name)
    return Made([value], labels=value)
