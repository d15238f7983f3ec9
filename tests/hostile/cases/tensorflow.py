"""Bad graphs, checkpoints and SavedModels of TensorFlow."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from netweave.errors import NetweaveError, ReadError, ShapeError, UnsupportedError, WeightError
from netweave.formats.tensorflow.table import MAGIC, masked_checksum
from tests.hostile.cases.case import ANY, add, file
from tests.hostile.nets import TENSORFLOW

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

X = (
    'node { name: "x" op: "Placeholder" '
    'attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { '
    "shape { dim { size: -1 } dim { size: 8 } dim { size: 8 } dim { size: 3 } } } } }\n"
)


def _node(name: str, op: str, *inputs: str, **attributes: str) -> str:
    read = "".join(f' input: "{source}"' for source in inputs)
    held = "".join(f' attr {{ key: "{key}" value {{ {value} }} }}' for key, value in attributes.items())
    return f'node {{ name: "{name}" op: "{op}"{read}{held} }}\n'


def _numbers(name: str, *numbers: int) -> str:
    sizes = f"tensor_shape {{ dim {{ size: {len(numbers)} }} }}"
    values = " ".join(f"int64_val: {number}" for number in numbers)
    return _node(name, "Const", value=f"tensor {{ dtype: DT_INT64 {sizes} {values} }}")


def _array(*sizes: int, value: str = "float_val: 1") -> str:
    dims = " ".join(f"dim {{ size: {size} }}" for size in sizes)
    held = f"tensor {{ dtype: DT_FLOAT tensor_shape {{ {dims} }} {value} }}"
    return _node("w", "Const", value=held)


HUGE = 2**62


def _filled(name: str, *sizes: int) -> str:
    """Return a constant of whole numbers that are all one."""
    dims = " ".join(f"dim {{ size: {size} }}" for size in sizes)
    return _node(name, "Const", value=f"tensor {{ dtype: DT_INT32 tensor_shape {{ {dims} }} int_val: 1 }}")


LONG = 30_000_000
"""Elements that a few bytes describe, and too many to be taken one by one."""


def _calls(count: int) -> str:
    """Return functions of which each calls the next one twice."""
    found = []
    for i in range(count):
        called = f'attr {{ key: "f" value {{ func {{ name: "f{i + 1}" }} }} }}'
        found.append(
            f'function {{ signature {{ name: "f{i}" input_arg {{ name: "a" }} output_arg {{ name: "b" }} }} '
            f'node_def {{ name: "c" op: "PartitionedCall" input: "a" {called} }} '
            f'node_def {{ name: "d" op: "PartitionedCall" input: "c:output:0" {called} }} '
            f'ret {{ key: "b" value: "d:output:0" }} }}\n'
        )
    return "".join(found)


_LAST = (
    'function { signature { name: "f60" input_arg { name: "a" } output_arg { name: "b" } } '
    'node_def { name: "r" op: "Relu" input: "a" } ret { key: "b" value: "r:activations:0" } }'
)
_ITSELF = _LAST.replace(
    'op: "Relu"', 'op: "PartitionedCall" attr { key: "f" value { func { name: "f60" } } }'
)
_PAIRS = "tensor_shape { dim { size: 4 } dim { size: 2 } }"
_STRIDES = "list { i: [1, 1, 1, 1] }"

_TEXTS = {
    "an unknown operator": (X + _node("y", "Fly", "x"), UnsupportedError, "Fly.*'y' on line 2"),
    "a loop of TensorFlow 1": (
        X + _node("m", "Merge", "x", "n") + _node("n", "NextIteration", "m") + _node("y", "Relu", "m"),
        UnsupportedError,
        "loop of TensorFlow 1",
    ),
    "nodes in a cycle": (
        X + _node("a", "Add", "x", "b") + _node("b", "Relu", "a") + _node("y", "Relu", "b"),
        ReadError,
        "depends on its own output",
    ),
    "a node that is not there": (X + _node("y", "Add", "x", "z"), ReadError, "'z'"),
    "two nodes of one name": (X + X, ReadError, "two nodes named 'x'"),
    "an output that is not there": (X + _node("y", "Relu", "x:3"), UnsupportedError, "output 3"),
    "no output": (X, ReadError, "no output"),
    "too few inputs": (X + _node("y", "Conv2D", "x"), ReadError, "input"),
    "a size of 2^62": (X + _array(HUGE) + _node("y", "Mul", "x", "w"), ReadError, "elements"),
    "2^62 twice as a size": (X + _array(HUGE, HUGE) + _node("y", "Mul", "x", "w"), ReadError, "elements"),
    "fewer bytes than declared": (
        X + _array(5, value='tensor_content: "abc"') + _node("y", "Mul", "x", "w"),
        ReadError,
        "3 bytes",
    ),
    "a kernel of other channels": (
        X + _array(3, 3, 5, 2) + _node("y", "Conv2D", "x", "w", strides=_STRIDES),
        ShapeError,
        ANY,
    ),
    "a reshape that loses elements": (
        X + _array(3) + _numbers("s", 2, 5) + _node("r", "Reshape", "w", "s") + _node("y", "Mul", "x", "r"),
        ShapeError,
        "reshapes",
    ),
    "a reshape to 2^62": (X + _numbers("s", HUGE, -1) + _node("y", "Reshape", "x", "s"), NetweaveError, ANY),
    "tiled 2^62 times": (
        X + _numbers("s", HUGE, HUGE, HUGE, HUGE) + _node("y", "Tile", "x", "s"),
        ShapeError,
        "2,147,483,647",
    ),
    "filled to 2^62": (
        X
        + _numbers("s", HUGE)
        + _numbers("n", 1)
        + _node("f", "Fill", "s", "n")
        + _node("y", "AddV2", "x", "f"),
        NetweaveError,
        ANY,
    ),
    "padded by 2^62": (
        X
        + _array(1)
        + _node("y", "Pad", "x", "p")
        + _node(
            "p",
            "Const",
            value=f"tensor {{ dtype: DT_INT64 {_PAIRS} int64_val: {HUGE} }}",
        ),
        ShapeError,
        ANY,
    ),
    "axes that are a broadcast constant": (
        X + _filled("s", LONG) + _node("y", "Mean", "x", "s"),
        UnsupportedError,
        "the axes has 30,000,000 numbers, at most 65,536",
    ),
    "sizes that are a broadcast constant": (
        X + _filled("s", LONG) + _node("y", "Reshape", "x", "s"),
        UnsupportedError,
        "30,000,000 numbers, at most 65,536",
    ),
    "tiled by a broadcast constant": (
        X + _filled("s", LONG) + _node("y", "Tile", "x", "s"),
        NetweaveError,
        ANY,
    ),
    "a constant of two thousand million equal values": (
        X + _array(2_000_000_000) + _node("y", "Mul", "x", "w"),
        ReadError,
        "contains 1 values for a tensor of 2,000,000,000 elements; at most 33,554,432 may repeat",
    ),
    "a constant that goes on with its last value": (
        X + _array(2_000_000_000, value="float_val: 1 float_val: 2") + _node("y", "Mul", "x", "w"),
        ReadError,
        "contains 2 values for a tensor of 2,000,000,000 elements; at most 33,554,432 may repeat",
    ),
    "a sum of a row and a column": (
        X
        + _filled("a", 1, 65536)
        + _filled("b", 65536, 1)
        + _node("g", "Add", "a", "b")
        + _node("y", "Tile", "x", "g"),
        NetweaveError,
        ANY,
    ),
    "forty constants of a million repeated values": (
        X + "".join(_filled(f"s{i}", 1_000_000) for i in range(40)) + _node("y", "Mul", "x", "s0"),
        ReadError,
        "has constants with more than 33,554,432 repeated values, the last of them in node 's33'",
    ),
    "a constant of 100 axes": (
        X + _array(*[1] * 100) + _node("y", "Mul", "x", "w"),
        ReadError,
        "elements or 64 axes",
    ),
    "two thousand million tensors of a list": (
        X.replace("size: 3", "size: 2000000000") + _node("y", "Unpack", "x", axis="i: 3"),
        UnsupportedError,
        "2,000,000,000 tensors as outputs, at most 4,000",
    ),
    "two thousand million pieces": (
        X.replace("size: 3", "size: 2000000000")
        + _numbers("a", 3)
        + _node("y", "Split", "a", "x", num_split="i: 2000000000"),
        UnsupportedError,
        "2,000,000,000 tensors as outputs, at most 4,000",
    ),
    "an axis beyond": (X + _numbers("s", 9) + _node("y", "Mean", "x", "s"), ShapeError, "axis 9"),
    "a list in the place of a number": (
        X + _node("y", "LRN", "x", depth_radius="list { i: [1] }"),
        NetweaveError,
        ANY,
    ),
    "functions that explode": (
        X
        + _node("y", "PartitionedCall", "x", f='func { name: "f0" }')
        + f"library {{ {_calls(60)} {_LAST} }}",
        UnsupportedError,
        "written out",
    ),
    "a function that calls itself": (
        X + _node("y", "PartitionedCall", "x", f='func { name: "f60" }') + f"library {{ {_ITSELF} }}",
        UnsupportedError,
        "written out",
    ),
    "a function that is not there": (
        X + _node("y", "PartitionedCall", "x", f='func { name: "g" }'),
        ReadError,
        "'g'",
    ),
    "a net in training": (
        X + _array(3) + _node("y", "FusedBatchNorm", "x", "w", "w", "w", "w"),
        UnsupportedError,
        "is_training=True",
    ),
    "an input without sizes": (
        _node("x", "Placeholder", dtype="type: DT_FLOAT") + _node("y", "Relu", "x"),
        ShapeError,
        "--input-shape x=",
    ),
}
for _name, (_content, _error, _message) in _TEXTS.items():
    add(f"tensorflow: {_name}", file("net.pbtxt", _content), _error, _message)


def _checkpoint(damage: Callable[[dict[str, bytes]], None]) -> Callable[[Path], Path]:
    """Return what writes a MetaGraph with a damaged checkpoint."""

    def make(folder: Path) -> Path:
        files = {path.name: path.read_bytes() for path in TENSORFLOW.glob("gru.*")}
        damage(files)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return folder / "gru.meta"

    return make


def _index(block: bytes) -> bytes:
    """Return a table whose only block of entries, and whose index, are the same block."""
    kind = b"\0"
    whole = block + kind + struct.pack("<I", masked_checksum(block + kind))
    handle = bytes([0, len(block)])
    return whole + (handle + handle).ljust(40, b"\0") + MAGIC


def _set(name: str, content: bytes) -> Callable[[dict[str, bytes]], None]:
    def damage(files: dict[str, bytes]) -> None:
        files[name] = content

    return damage


def _flip(files: dict[str, bytes]) -> None:
    content = bytearray(files["gru.index"])
    content[20] ^= 4
    files["gru.index"] = bytes(content)


_CHECKPOINTS = {
    "no table": (_set("gru.index", b"what" * 20), ReadError, "footer is wrong"),
    "a table cut short": (_set("gru.index", MAGIC), ReadError, "copied completely"),
    "a flipped bit": (_flip, ReadError, "checksum"),
    "an entry longer than its block": (
        _set("gru.index", _index(b"\x00\x01\x7fa" + b"\0" * 4)),
        ReadError,
        "longer than its block",
    ),
    "a key that goes on from nothing": (
        _set("gru.index", _index(b"\x05\x01\x00a" + b"\0" * 4)),
        ReadError,
        "shares more bytes",
    ),
    "a block without room for its list": (
        _set("gru.index", _index(b"\xff\xff\xff\x7f")),
        ReadError,
        "too short for its list",
    ),
    "a number without an end": (
        _set("gru.index", _index(b"\xff" * 12 + b"\0" * 4)),
        ReadError,
        "no end|own list",
    ),
    "values cut short": (_set("gru.data-00000-of-00001", b"abc"), WeightError, "3 bytes"),
    "values that are not there": (
        lambda files: files.__delitem__("gru.data-00000-of-00001"),
        WeightError,
        "is missing",
    ),
}
for _name, (_damage, _error, _message) in _CHECKPOINTS.items():
    add(f"checkpoint: {_name}", _checkpoint(_damage), _error, _message)

add(
    "checkpoint: without a net",
    file("model.index", (TENSORFLOW / "gru.index").read_bytes()),
    ReadError,
    "no net",
)


def _saved_model(content: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / "saved_model.pb").write_bytes(content)
        return folder

    return make


add("saved model: empty", _saved_model(b""), ReadError, "empty")
add("saved model: a text", _saved_model(b"hello"), ReadError, "SavedModel")
add("saved model: without a graph", _saved_model(b"\x08\x01"), ReadError, "without a graph")
