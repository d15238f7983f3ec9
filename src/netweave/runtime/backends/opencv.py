"""Running a Graph by OpenCV's DNN module on the CPU.

OpenCV computes convolutions of 3 x 3 by Winograd's minimal filtering (Lavin and Gray 2016), with less than
half of the multiplications; the other backends do not on a CPU. It is given what it computes as ONNX says, as
far as sizes are known; the rest is left to ONNX Runtime, what both lack to the registry's own forwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any

import cv2
import numpy as np
import onnx
import onnx_ir as ir

from netweave.errors import RunError
from netweave.graph import Graph, attributes_of, known_shape
from netweave.graph.operators import Attributes
from netweave.graph.ops.pooling import PoolWindows
from netweave.graph.passes import pad_rounded_windows, spread_group_norm
from netweave.runtime.backends import onnxruntime
from netweave.runtime.backends.inputs import SizedRunner
from netweave.runtime.backends.model import SegmentModel
from netweave.runtime.backends.runner import Purpose, RunSettings
from netweave.runtime.backends.segmented import (
    Runtime,
    SegmentedRunner,
    check_domains,
    check_float32,
    prepare_segments,
    wanted_names,
)

_KNOWN_DOMAINS = frozenset({"", "ai.onnx", "com.microsoft"})

_TURN = Lock()
"""A process has one pool of OpenCV threads: nets take turns, each with its number of threads."""


def prepare(graph: Graph, taps: Sequence[str], settings: RunSettings) -> SizedRunner:
    """Make a graph ready to run, now for the usual sizes and for others when they are met.

    Args:
        graph: The graph; it is not changed.
        taps: Names of values to return besides the graph's outputs.
        settings: Purpose, precision and threads.

    Raises:
        UsageError: There is no such value to tap, or the precision is not float32.
        RunError: The graph holds operators that neither ONNX Runtime nor the registry has.
    """
    check_float32(settings, "OpenCV")
    names = wanted_names(graph, taps)
    check_domains(graph, _KNOWN_DOMAINS, "OpenCV")

    def ready(known: Graph) -> SegmentedRunner:
        pad_rounded_windows.edit(known)
        spread_group_norm.edit(known)
        own = Runtime(takes=_takes, start=partial(_start, _shapes(known), settings))
        return prepare_segments(known, names, [own, onnxruntime.runtime(known, settings)])

    runner = SizedRunner(graph, ready)
    if settings.usual_sizes:
        runner.at(settings.usual_sizes)
    return runner


@dataclass(frozen=True, slots=True)
class Net:
    """A segment in OpenCV.

    Attributes:
        net: OpenCV's own net.
        threads: Threads that one run computes with.
        inputs: Names of the values that it is fed.
        outputs: Names of the values that it gives back.
    """

    net: Any
    threads: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def run(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs by name.

        Raises:
            RunError: OpenCV cannot compute them; the message is its own.
        """
        with _TURN, _threads(self.threads), _explained("cannot run the net on these inputs"):
            for name in self.inputs:
                self.net.setInput(np.ascontiguousarray(values[name]), name)
            made = self.net.forward(self.outputs)
        return dict(zip(self.outputs, made, strict=True))


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """Compute with a number of threads; OpenCV's setting stays as it was for the rest of the program."""
    before = cv2.getNumThreads()
    if before == number:
        yield
        return
    cv2.setNumThreads(number)
    try:
        yield
    finally:
        cv2.setNumThreads(before)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    except cv2.error as error:
        reason = error.err or str(error)
        raise RunError(f"OpenCV {what}: {' '.join(reason.split())}") from error


def _shapes(graph: Graph) -> dict[str, tuple[int, ...]]:
    """Return the sizes of the values of which all are known."""
    values = [*graph.inputs, *(value for node in graph.nodes for value in node.outputs)]
    return {value.name or "": shape for value in values if (shape := _sizes(value)) is not None}


def _sizes(value: ir.Value | None) -> tuple[int, ...] | None:
    """Return a value's sizes if all are known."""
    shape = known_shape(value) or ()
    sizes = tuple(size for size in shape if size is not None)
    return sizes if shape and len(sizes) == len(shape) else None


def _start(
    shapes: Mapping[str, tuple[int, ...]],
    settings: RunSettings,
    model: SegmentModel,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
) -> Net:
    proto = onnx.load_from_string(model.content)
    for info in (*proto.graph.input, *proto.graph.output):
        tensor = info.type.tensor_type
        tensor.elem_type = onnx.TensorProto.FLOAT
        tensor.ClearField("shape")
        for size in shapes[info.name]:
            tensor.shape.dim.add(dim_value=size)
    with _explained("rejects the net"):
        net = cv2.dnn.readNetFromONNX(np.frombuffer(proto.SerializeToString(), np.uint8))
    optimised = settings.purpose is Purpose.INFERENCE
    net.enableFusion(optimised)
    net.enableWinograd(optimised)
    return Net(net, settings.num_threads, inputs, outputs)


def _takes(node: ir.Node) -> bool:
    """Return whether OpenCV computes a node as ONNX says."""
    right = OPERATORS.get(node.op_type)
    return (
        right is not None
        and not node.domain
        and all(map(_is_usual, (*node.inputs, *node.outputs)))
        and not any(size == 0 for size in _sizes(node.outputs[0]) or ())
        and right(node, attributes_of(node))
    )


def _is_usual(value: ir.Value | None) -> bool:
    """Return whether a value is stored, or float32 with known sizes and at least two axes."""
    if value is None or value.is_initializer():
        return True
    sizes = _sizes(value)
    return value.dtype == ir.DataType.FLOAT and sizes is not None and len(sizes) >= 2


def _always(node: ir.Node, attributes: Attributes) -> bool:
    return True


def _is_stored(node: ir.Node, *places: int) -> bool:
    """Return whether the inputs at these places, where there are any, are stored."""
    given = [node.inputs[place] for place in places if place < len(node.inputs)]
    return all(value is None or value.is_initializer() for value in given)


def _is_image(node: ir.Node) -> bool:
    return len(_sizes(node.inputs[0]) or ()) == 4


def _has_numbers(attributes: Attributes) -> bool:
    """Return whether padding is given as numbers."""
    return bool(attributes.get("auto_pad", "NOTSET") in {"NOTSET", "VALID"})


def _is_convolution(node: ir.Node, attributes: Attributes) -> bool:
    return _is_image(node) and _is_stored(node, 1, 2) and _has_numbers(attributes)


def _is_pooling(node: ir.Node, attributes: Attributes) -> bool:
    windows = PoolWindows.of("", attributes)
    usual = windows.rounding == "floor" and set(windows.dilations) == {1} and len(node.outputs) == 1
    # the size of a mean's window is without padding, whatever ONNX's count_include_pad says
    means_padding = windows.counts_padding and any((*windows.begin, *windows.end))
    return usual and not means_padding and _is_image(node) and _has_numbers(attributes)


def _is_inference(node: ir.Node, attributes: Attributes) -> bool:
    return len(node.outputs) == 1 and _is_stored(node, 1, 2, 3, 4) and not attributes.get("training_mode", 0)


def _is_dense(node: ir.Node, attributes: Attributes) -> bool:
    plain = not attributes.get("transA", 0) and {attributes.get(n, 1.0) for n in ("alpha", "beta")} == {1.0}
    return plain and len(_sizes(node.inputs[0]) or ()) == 2 and _is_stored(node, 1, 2)


def _is_between_equals(node: ir.Node, attributes: Attributes) -> bool:
    """Return whether both arguments are computed and of one size: nothing is broadcast."""
    return len({_sizes(value) for value in node.inputs}) == 1 and not any(
        value is None or value.is_initializer() for value in node.inputs
    )


def _has_stored_settings(node: ir.Node, attributes: Attributes) -> bool:
    return _is_stored(node, *range(1, len(node.inputs)))


OPERATORS: dict[str, Callable[[ir.Node, Attributes], bool]] = {
    "Add": _is_between_equals,
    "AveragePool": _is_pooling,
    "BatchNormalization": _is_inference,
    "Clip": _has_stored_settings,
    "Concat": _always,
    "Conv": _is_convolution,
    "Elu": _always,
    "Flatten": _always,
    "Gemm": _is_dense,
    "GlobalAveragePool": lambda node, attributes: _is_image(node),
    "GlobalMaxPool": lambda node, attributes: _is_image(node),
    "Identity": _always,
    "LRN": lambda node, attributes: _is_image(node),
    "LeakyRelu": _always,
    "MatMul": _is_dense,
    "MaxPool": _is_pooling,
    "Mul": _is_between_equals,
    "Relu": _always,
    "Reshape": _has_stored_settings,
    "Sigmoid": _always,
    "Softmax": _always,
    "Sub": _is_between_equals,
    "Tanh": _always,
    "Transpose": _always,
}
"""What OpenCV 4.14 computes as ONNX's node tests expect, and when."""
