"""Running a Graph by OpenVINO on the CPU.

What OpenVINO computes wrongly is left to ONNX Runtime, what both lack to the registry's own forwards.
OpenVINO computes in bfloat16 where the CPU can, unless it is told otherwise: it is told the precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any

import numpy as np
import onnx_ir as ir
import openvino

from netweave.errors import RunError, UsageError
from netweave.graph import DOMAIN, Graph, attributes_of, known_shape
from netweave.graph.operators import Attributes
from netweave.graph.ops.pooling import PoolWindows, is_standard
from netweave.graph.passes import pad_rounded_windows, specialise
from netweave.runtime.backends import onnxruntime
from netweave.runtime.backends.model import SegmentModel
from netweave.runtime.backends.runner import Purpose, RunSettings
from netweave.runtime.backends.segmented import (
    Runtime,
    SegmentedRunner,
    check_domains,
    prepare_segments,
    wanted_names,
)

Shapes = tuple[tuple[int, ...], ...]

_KNOWN_DOMAINS = frozenset({"", "ai.onnx", "com.microsoft"})

OPEN = -1
"""OpenVINO's number for a size that is not known."""

MAX_SIZES = 4
"""Compiled forms for the last input sizes that are kept; each holds the weights of its segment."""


class RequestPool:
    """A compiled model with its requests, of which each serves one run at a time.

    Args:
        compiled: OpenVINO's compiled model.
    """

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled
        self._idle: SimpleQueue[Any] = SimpleQueue()

    def infer(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return copies of the outputs; the inputs are read where they are."""
        try:
            request = self._idle.get_nowait()
        except Empty:
            request = self._compiled.create_infer_request()
        try:
            return list(request.infer(arrays, share_inputs=True).values())
        finally:
            self._idle.put(request)


class OpenModel:
    """A segment that is compiled once for all sizes, and once more for those that most runs have.

    Open sizes cost shape inference and new buffers in every run: 5 % of one of 7 ms.

    Args:
        compiled: The segment, with the sizes open that its inputs leave open.
        usual: The shapes of its inputs in most runs, and the segment for these alone; None if not known.
        inputs: Names of the values that it is fed.
        outputs: Names of the values that it gives back.
    """

    def __init__(
        self,
        compiled: Any,
        usual: tuple[Shapes, Any] | None,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
    ) -> None:
        self._open = RequestPool(compiled)
        self._usual = {} if usual is None else {usual[0]: RequestPool(usual[1])}
        self._inputs, self._outputs = inputs, outputs

    def run(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs by name; see ``SizedModel.run``."""
        arrays = [values[name] for name in self._inputs]
        pool = self._usual.get(tuple(array.shape for array in arrays), self._open)
        return _inferred(pool, arrays, self._outputs)


class SizedModel:
    """A segment that is compiled for each size of its inputs when it is first met.

    Args:
        compiling: Compiles a model for the shapes of its inputs.
        inputs: Names of the values that it is fed.
        outputs: Names of the values that it gives back.
    """

    def __init__(
        self, compiling: Callable[[Shapes], Any], inputs: tuple[str, ...], outputs: tuple[str, ...]
    ) -> None:
        self._compile = compiling
        self._inputs, self._outputs = inputs, outputs
        self._ready: dict[Shapes, RequestPool] = {}
        self._lock = Lock()

    def run(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs by name.

        Raises:
            RunError: OpenVINO cannot compute them; the message is its own.
        """
        arrays = [values[name] for name in self._inputs]
        with _explained():
            pool = self._pool(tuple(array.shape for array in arrays))
        return _inferred(pool, arrays, self._outputs)

    def _pool(self, shapes: Shapes) -> RequestPool:
        with self._lock:
            pool = self._ready.pop(shapes, None) or RequestPool(self._compile(shapes))
            self._ready[shapes] = pool
            if len(self._ready) > MAX_SIZES:
                del self._ready[next(iter(self._ready))]
        return pool


def _inferred(
    pool: RequestPool, arrays: Sequence[np.ndarray], outputs: Sequence[str]
) -> dict[str, np.ndarray]:
    with _explained():
        return dict(zip(outputs, pool.infer(arrays), strict=True))


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # OpenVINO's errors have no base of their own
        raise RunError(f"OpenVINO cannot run the net on these inputs: {_reason(error)}") from error


def prepare(graph: Graph, taps: Sequence[str], settings: RunSettings) -> SegmentedRunner:
    """Make a graph ready to run; its stored arrays are read (or drawn) now, once.

    Args:
        graph: The graph; it is not changed.
        taps: Names of values to return besides the graph's outputs.
        settings: Purpose, precision and threads.

    Raises:
        UsageError: There is no such value to tap, or the processor does not have the precision.
        RunError: The graph holds operators that neither OpenVINO nor the registry has.
    """
    names = wanted_names(graph, taps)
    check_domains(graph, _KNOWN_DOMAINS, "OpenVINO")
    core = openvino.Core()
    _check_precision(core, settings.precision)
    graph = specialise(graph)
    pad_rounded_windows.edit(graph)
    own = Runtime(takes=_takes, start=partial(_start, core, settings, _input_shapes(graph)))
    rest = onnxruntime.runtime(graph, replace(settings, precision="f32"))
    return prepare_segments(graph, names, [own, rest])


def _input_shapes(graph: Graph) -> dict[str, list[int]]:
    """Return the sizes of the inputs, each of which has been checked when a run begins."""
    shapes = {value.name or "": known_shape(value) for value in graph.inputs}
    return {
        name: [OPEN if size is None else size for size in shape]
        for name, shape in shapes.items()
        if shape is not None
    }


def _check_precision(core: Any, precision: str) -> None:
    """Refuse a precision that the processor has no arithmetic for: OpenVINO would silently take float32.

    Raises:
        UsageError: It has none.
    """
    capability = {"bf16": "BF16", "f16": "FP16"}.get(precision)
    if capability and capability not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        raise UsageError(f"OpenVINO does not compute in {precision} on this processor; use f32, the default")


def _takes(node: ir.Node) -> bool:
    """Return whether OpenVINO computes a node as ONNX says, as far as it does not refuse it."""
    wrong = _WRONG.get(node.op_type)
    return node.domain != DOMAIN and (wrong is None or not wrong(attributes_of(node)))


def _may_drop_a_window(attributes: Attributes) -> bool:
    """Return whether for some size ONNX drops a last window that would start in the end padding."""
    windows = PoolWindows.of("", attributes)
    pads = [*windows.begin, *windows.end]
    standard = is_standard(windows.kernel, strides=windows.strides, pads=pads, rounding="full")
    return windows.rounding == "ceil" and not standard


def _is_rare_resize(attributes: Attributes) -> bool:
    rare = {"antialias": 0, "exclude_outside": 0, "keep_aspect_ratio_policy": "stretch"}
    return any(attributes.get(name, usual) != usual for name, usual in rare.items())


def _is_batch_first(attributes: Attributes) -> bool:
    return bool(attributes.get("layout", 0))


def _always(attributes: Attributes) -> bool:
    return True


def _is_same(attributes: Attributes) -> bool:
    return str(attributes.get("auto_pad", "NOTSET")).startswith("SAME")


def _has_fractional_bias(attributes: Attributes) -> bool:
    return not float(attributes.get("bias", 1.0)).is_integer()


def _is_maximum(attributes: Attributes) -> bool:
    return bool(attributes.get("mode", "avg") == "max")


_WRONG: dict[str, Callable[[Attributes], bool]] = {
    "BitShift": _always,
    "ConvTranspose": _is_same,
    "DFT": _always,
    "GRU": _is_batch_first,
    "LRN": _has_fractional_bias,  # its CPU kernel keeps the bias as an integer
    "LSTM": _is_batch_first,
    "MaxPool": _may_drop_a_window,
    "NonMaxSuppression": _always,
    "RNN": _is_batch_first,
    "Resize": _is_rare_resize,
    "RoiAlign": _is_maximum,
}
"""Where OpenVINO 2026.4 computes something else than ONNX's node tests expect, and does not say so."""


def _start(
    core: Any,
    settings: RunSettings,
    shapes: Mapping[str, Sequence[int]],
    model: SegmentModel,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
) -> SizedModel | OpenModel:
    config: dict[str, Any] = {
        "INFERENCE_PRECISION_HINT": settings.precision,
        "PERFORMANCE_HINT": "LATENCY",
    }
    if settings.threads:
        config["INFERENCE_NUM_THREADS"] = settings.threads
    try:
        read = core.read_model(model.content)
        if settings.purpose is Purpose.INFERENCE:
            known = {index: shapes[name] for index, name in enumerate(inputs) if name in shapes}
            if known:
                read.reshape(known)
            compiled_open = core.compile_model(read, "CPU", config)
            usual = _usual(inputs, settings.usual_sizes, partial(_compiled, core, read, config))
            return OpenModel(compiled_open, usual, inputs, outputs)
    except Exception as error:  # OpenVINO's errors have no base of their own
        raise RunError(f"OpenVINO rejects the net: {_reason(error)}") from error
    return SizedModel(partial(_compiled, core, read, config), inputs, outputs)


def _usual(
    inputs: tuple[str, ...],
    sizes: Mapping[str, tuple[int, ...]],
    compiling: Callable[[Shapes], Any],
) -> tuple[Shapes, Any] | None:
    """Compile a segment for the usual sizes, if all that it reads are inputs of the net."""
    if not inputs or not sizes.keys() >= set(inputs):
        return None
    shapes = tuple(sizes[name] for name in inputs)
    return shapes, compiling(shapes)


def _compiled(core: Any, read: Any, config: Mapping[str, Any], shapes: Shapes) -> Any:
    """Compile a model for the shapes of its inputs."""
    if shapes:
        read.reshape({index: list(shape) for index, shape in enumerate(shapes)})
    return core.compile_model(read, "CPU", dict(config))


def _reason(error: Exception) -> str:
    """Return the last sentence of OpenVINO's message, which begins with places in its own source."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
