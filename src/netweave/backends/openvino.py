"""Running a Graph by OpenVINO on the CPU.

What OpenVINO computes wrongly is left to ONNX Runtime, what both lack to the registry's own forwards.
OpenVINO computes in bfloat16 where the CPU can, unless it is told otherwise: here it is told float32.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import openvino

from netweave.backends import onnxruntime
from netweave.backends.segmented import Runtime, SegmentedRunner, check_domains, prepare_segments
from netweave.errors import RunError
from netweave.graph import DOMAIN, attributes_of
from netweave.graph.ops.pooling import PoolWindows, is_standard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    import onnx_ir as ir

    from netweave.backends.model import SegmentModel
    from netweave.graph import Graph
    from netweave.graph.operators import Attributes

_KNOWN_DOMAINS = frozenset({"", "ai.onnx", "com.microsoft"})

MAX_SIZES = 4
"""Compiled forms for the last input sizes that are kept; each holds the weights of its segment."""


@dataclass(slots=True)
class Compiled:
    """A segment in OpenVINO, which is compiled for each size of its inputs when it is first met.

    Attributes:
        core: OpenVINO itself.
        model: The segment, as read; its sizes change with the inputs.
        settings: How it is compiled.
        inputs: Names of the values that it is fed.
        outputs: Names of the values that it gives back.
        ready: The last compiled forms by the shapes of the inputs.
    """

    core: Any
    model: Any
    settings: dict[str, Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    ready: dict[tuple[tuple[int, ...], ...], Any] = field(default_factory=dict)

    def run(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs by name.

        Raises:
            RunError: OpenVINO cannot compute them; the message is its own.
        """
        arrays = [values[name] for name in self.inputs]
        try:
            made = self._for(arrays)(arrays)
        except Exception as error:  # OpenVINO's errors have no base of their own
            raise RunError(f"OpenVINO cannot run the net on these inputs: {_reason(error)}") from error
        return {name: made[index] for index, name in enumerate(self.outputs)}

    def _for(self, arrays: Sequence[np.ndarray]) -> Any:
        key = tuple(array.shape for array in arrays)
        compiled = self.ready.pop(key, None)
        if compiled is None:
            if arrays:
                self.model.reshape({i: list(shape) for i, shape in enumerate(key)})
            compiled = self.core.compile_model(self.model, "CPU", self.settings)
        self.ready[key] = compiled
        if len(self.ready) > MAX_SIZES:
            del self.ready[next(iter(self.ready))]
        return compiled


def prepare(graph: Graph, taps: Sequence[str], *, num_threads: int = 0) -> SegmentedRunner:
    """Make a graph ready to run; its stored arrays are read (or drawn) now, once.

    Args:
        graph: The graph; it is not changed.
        taps: Names of values to return besides the graph's outputs.
        num_threads: Threads inside an operator; 0 leaves it to OpenVINO.

    Raises:
        UsageError: There is no such value to tap.
        RunError: The graph holds operators that neither OpenVINO nor the registry has.
    """
    names = [*(value.name or "" for value in graph.outputs), *taps]
    check_domains(graph, _KNOWN_DOMAINS, "OpenVINO")
    settings: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    if num_threads:
        settings["INFERENCE_NUM_THREADS"] = num_threads
    own = Runtime(takes=_takes, start=partial(_start, openvino.Core(), settings))
    return prepare_segments(graph, names, [own, onnxruntime.runtime(graph, num_threads=num_threads)])


def _takes(node: ir.Node) -> bool:
    """Whether OpenVINO computes a node as ONNX says, as far as it does not refuse it."""
    wrong = _WRONG.get(node.op_type)
    return node.domain != DOMAIN and (wrong is None or not wrong(attributes_of(node)))


def _may_drop_a_window(attributes: Attributes) -> bool:
    """Whether for some size ONNX drops a last window that would start in the end padding."""
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


def _is_maximum(attributes: Attributes) -> bool:
    return bool(attributes.get("mode", "avg") == "max")


_WRONG: dict[str, Callable[[Attributes], bool]] = {
    "BitShift": _always,
    "ConvTranspose": _is_same,
    "DFT": _always,
    "GRU": _is_batch_first,
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
    settings: dict[str, Any],
    model: SegmentModel,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
) -> Compiled:
    try:
        read = core.read_model(model.content)
    except Exception as error:  # OpenVINO's errors have no base of their own
        raise RunError(f"OpenVINO rejects the net: {_reason(error)}") from error
    return Compiled(core, read, settings, inputs, outputs)


def _reason(error: Exception) -> str:
    """Return the last sentence of OpenVINO's message, which begins with places in its own source."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
