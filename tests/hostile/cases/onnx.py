"""Bad ONNX models."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from netweave.errors import NetweaveError, ReadError, ShapeError, UnsupportedError
from tests.formats.onnx.models import model
from tests.formats.onnx.models import node as on
from tests.hostile.cases.case import ANY, add, file
from tests.hostile.cases.wire import wire_bytes

_HUGE = 2**62


def _model(op_type: str, *inputs: Any, **attributes: Any) -> bytes:
    """Return a model of one node that reads ``x`` and some constants."""
    arrays = {f"c{number}": np.asarray(values) for number, values in enumerate(inputs)}
    read = " ".join(["x", *arrays])
    return model(
        [on(op_type, read, "y", **attributes)], {"x": [1, 3, 8, 8]}, ["y"], arrays
    ).SerializeToString()


def _bodies(depth: int) -> bytes:
    """Return a model of an If inside an If inside an If; wire format by hand, since onnx refuses it."""
    inner = b""
    for _ in range(depth):
        attribute = wire_bytes(1, b"then_branch") + wire_bytes(6, wire_bytes(1, wire_bytes(4, b"If") + inner))
        inner = wire_bytes(5, attribute)
    graph = wire_bytes(1, wire_bytes(4, b"If") + inner) + wire_bytes(12, wire_bytes(1, b"y"))
    return b"\x08\x08" + wire_bytes(7, graph) + wire_bytes(8, b"\x10\x16")


def _circle() -> bytes:
    nodes = [on("Relu", "b", "a"), on("Relu", "a", "b")]
    return model(nodes, {"x": [1, 3]}, ["a"]).SerializeToString()


def _external(location: str) -> bytes:
    made = model([on("Add", "x w", "y")], {"x": [1, 3]}, ["y"], {"w": np.zeros(3, np.float32)})
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return made.SerializeToString()


def _declared(*sizes: int) -> bytes:
    made = model([on("Add", "x w", "y")], {"x": [1, 3]}, ["y"], {"w": np.zeros(3, np.float32)})
    made.graph.initializer[0].dims[:] = sizes
    return made.SerializeToString()


def _sparse() -> bytes:
    made = model([on("Relu", "x", "y")], {"x": [1, 3]}, ["y"])
    held = made.graph.sparse_initializer.add(dims=[_HUGE])
    held.values.CopyFrom(helper.make_tensor("w", onnx.TensorProto.FLOAT, [1], [1.0]))
    return made.SerializeToString()


def _exploding() -> bytes:
    imports = [helper.make_opsetid("", 22), helper.make_opsetid("f", 1)]
    functions = [helper.make_function("f", "F0", ["a"], ["b"], [on("Relu", "a", "b")], imports)]
    for i in range(60):
        nodes = [on(f"F{i}", "a", "c", domain="f"), on(f"F{i}", "c", "b", domain="f")]
        functions.append(helper.make_function("f", f"F{i + 1}", ["a"], ["b"], nodes, imports))
    return model(
        [on("F60", "x", "y", domain="f")], {"x": [1, 3]}, ["y"], domains={"f": 1}, functions=functions
    ).SerializeToString()


_LENGTH = 200_000_000
"""Elements that a few bytes describe: allowed for a tensor, and too many to be taken one by one."""


def _as_sizes(*nodes: Any, **constants: Any) -> bytes:
    """Return a model that reshapes its input to a vector ``r`` which some nodes make of constants."""
    arrays = {name: np.asarray(values) for name, values in constants.items()}
    return model([*nodes, on("Reshape", "x r", "y")], {"x": [1]}, ["y"], arrays).SerializeToString()


def _doubled() -> bytes:
    nodes = [on("Concat", f"r{step} r{step}", f"r{step + 1}", axis=0) for step in range(27)]
    return _as_sizes(*nodes, on("Identity", "r27", "r"), r0=np.int64([1]))


_LONG = {
    "a range as sizes": _as_sizes(
        on("Range", "a b c", "r"), a=np.int64(0), b=np.int64(_LENGTH), c=np.int64(1)
    ),
    "tiles as sizes": _as_sizes(on("Tile", "a b", "r"), a=np.int64([1]), b=np.int64([_LENGTH])),
    "tiles joined as sizes": _as_sizes(
        on("Tile", "a b", "t"), on("Concat", "t t", "r", axis=0), a=np.int64([1]), b=np.int64([_LENGTH])
    ),
    "an expanded number as sizes": _as_sizes(
        on("Expand", "a b", "r"), a=np.int64([1]), b=np.int64([_LENGTH])
    ),
    "a padded number as sizes": _as_sizes(on("Pad", "a b", "r"), a=np.int64([1]), b=np.int64([_LENGTH, 0])),
    "a vector doubled 27 times as sizes": _doubled(),
    "a tensor of 60,000 axes": _as_sizes(
        on("Range", "a b c", "r"), a=np.int64(0), b=np.int64(60_000), c=np.int64(1)
    ),
}
for _name, _content in _LONG.items():
    add(f"onnx: {_name}", file("net.onnx", _content), ShapeError, "axes, at most 64 are possible")


def _renamed_text() -> bytes:
    return model([on("Relu", "x", "y", name="NAME")], {"x": [1]}, ["y"]).SerializeToString()


_ONNX = {
    "2^31 as a size": (_declared(2**31), ReadError, "2,147,483,647"),
    "2^62 twice as a size": (_declared(_HUGE, _HUGE), ReadError, "2,147,483,647"),
    "sizes hidden behind a zero": (_declared(0, _HUGE, _HUGE), ReadError, "2,147,483,647"),
    "a size below zero": (_declared(-3), ReadError, "-3"),
    "fewer bytes than declared": (_declared(300_000_000), ReadError, "expected 1,200,000,000"),
    "nodes in a cycle": (_circle(), ReadError, "cycle"),
    "bodies nested too deep": (_bodies(500), ReadError, "protobuf"),
    "functions that explode": (_exploding(), UnsupportedError, "nodes"),
    "a sparse tensor": (_sparse(), UnsupportedError, "sparse"),
    "external data above": (_external("../../etc/hostname"), ReadError, "outside the folder"),
    "external data anywhere": (_external("/etc/hostname"), ReadError, "expected a relative path"),
    "external data with a NUL": (_external("a\0b"), ReadError, "expected a relative path"),
    "external data of a long name": (_external("x" * 5000), ReadError, ANY),
    "external data that is a device": (_external("../dev/zero"), ReadError, "outside the folder|missing"),
    "a shape of 2^62": (_model("Reshape", np.int64([_HUGE, -1])), ShapeError, ANY),
    "expanded to 2^62": (_model("Expand", np.int64([_HUGE, 1, 1, 1, 1])), ShapeError, "2,147,483,647"),
    "tiled 2^62 times": (_model("Tile", np.int64([_HUGE] * 4)), ShapeError, "2,147,483,647"),
    "padded by 2^62": (_model("Pad", np.int64([_HUGE] * 8)), ShapeError, ANY),
    "not a number as a scale": (_model("Upsample", np.float32([1, 1, np.nan, 1])), NetweaveError, ANY),
    "a one-hot of 2^62": (_model("OneHot", np.int64(_HUGE), np.float32([0, 1])), ShapeError, ANY),
    "a window of 2^60": (_model("MaxPool", kernel_shape=[2**60, 1]), ShapeError, ANY),
    "a step of 2^40": (
        _model("ConvTranspose", np.zeros((3, 3, 3, 3), np.float32), strides=[2**40, 2**40]), ShapeError, ANY,
    ),
    "an attribute of another type": (
        _model("MaxPool", kernel_shape="wide"), ReadError, "kernel_shape",
    ),
    "an unknown attribute": (_model("Relu", colour=3), ReadError, "colour"),
    "a missing attribute": (_model("MaxPool"), ReadError, "kernel_shape"),
    "too many inputs": (_model("Relu", np.float32(1)), ReadError, "2 inputs"),
    "opset 999": (
        model([on("Relu", "x", "y")], {"x": [1]}, ["y"], opset=999).SerializeToString(),
        UnsupportedError, "999",
    ),
    "not UTF-8": (_renamed_text().replace(b"NAME", b"\xff\xfe\xfd\xfc"), ReadError, "UTF-8"),
    "a graph that is a text": (b"\x08\x08\x3a\x04what\x42\x02\x10\x16", ReadError, "protobuf"),
}  # fmt: skip
for _name, (_content, _error, _message) in _ONNX.items():
    add(f"onnx: {_name}", file("net.onnx", _content), _error, _message)
