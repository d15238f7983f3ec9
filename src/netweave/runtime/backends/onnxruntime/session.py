"""Sessions of ONNX Runtime."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime as ort

from netweave.errors import RunError
from netweave.graph import DOMAIN, Graph, attributes_of
from netweave.graph.passes import explicit, extract, spread_group_norm
from netweave.runtime.backends.inputs import SizedRunner
from netweave.runtime.backends.model import SegmentModel, open_size
from netweave.runtime.backends.runner import Purpose, Runner, RunSettings
from netweave.runtime.backends.segmented import (
    Runtime,
    SegmentedRunner,
    check_domains,
    check_float32,
    prepare_segments,
    start_segments,
    wanted_names,
)
from netweave.runtime.engine.threaded import num_cores


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """ONNX Runtime's settings for one purpose; what they cost and gain is measured in decision 0005.

    Attributes:
        level: Graph optimisation level. Above "disabled" nodes are merged, so that values change in the last
            bits and tapping costs what the merging gained.
        plans_memory: Whether buffers are planned ahead, from the sizes of the inputs: starting a session
            takes time that is quadratic in the values of unknown size, and each run saves its allocations.
        prepacks: Whether weights are kept a second time in the order that kernels read them in.
        pools_memory: Whether freed memory stays with the session for its next tensors. As long as one tensor
            lives, so does the pool that it comes from, which grows by doubling.
        feeds_weights: Whether large arrays are inputs of the session: its start copies what it holds itself.
            Merging nodes needs them to be held.
        spins: Whether threads wait awake between the operators of a run.
        max_nodes: Most nodes in a session where none are merged, since starting one takes time that grows
            faster than its nodes; None for any number.
    """

    level: ort.GraphOptimizationLevel
    plans_memory: bool
    prepacks: bool
    pools_memory: bool
    feeds_weights: bool
    spins: bool
    max_nodes: int | None


SESSIONS = {
    Purpose.TAPPING: SessionSettings(
        ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
        plans_memory=False,
        prepacks=False,
        pools_memory=False,
        feeds_weights=True,
        spins=False,  # idle threads of every live session would spin, and comparing starts hundreds
        max_nodes=1000,
    ),
    Purpose.INFERENCE: SessionSettings(
        ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
        plans_memory=True,
        prepacks=True,
        pools_memory=True,
        feeds_weights=False,
        spins=True,
        max_nodes=None,
    ),
}
"""One row for each purpose."""

_ERRORS_ONLY = 4


@dataclass(frozen=True, slots=True)
class Session:
    """A segment in ONNX Runtime.

    Attributes:
        session: The runtime's own session.
        places: Where each node stands, for a message, given its name.
        inputs: Names of the values that it is fed.
        weights: Arrays that it is fed in each run.
        outputs: Names of the values that it gives back.
    """

    session: ort.InferenceSession
    places: Callable[[str], str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: dict[str, np.ndarray]

    def run(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs by name.

        Raises:
            RunError: The runtime cannot compute them; the message names the layer and is its own.
        """
        try:
            made = self.session.run(
                list(self.outputs), {**self.weights, **{name: values[name] for name in self.inputs}}
            )
        except Exception as error:  # the runtime's errors have no base of their own
            raise RunError(_explained(error, self.places)) from error
        return dict(zip(self.outputs, made, strict=True))


class UsualSession:
    """A segment with a session for the sizes that most runs have, and another one for all others.

    Buffers are planned better where all sizes are known: that saves 2 to 3 % of a run of MobileNet v2. The
    other session is started when other sizes first come.

    Args:
        starting: Starts a session for these shapes of its inputs by name; where there are none, for any.
        sizes: The shapes of its inputs in most runs, by name.

    Raises:
        RunError: The runtime refuses the model.
    """

    def __init__(
        self,
        starting: Callable[[Mapping[str, tuple[int, ...]]], Session],
        sizes: Mapping[str, tuple[int, ...]],
    ) -> None:
        self._starting, self._sizes = starting, sizes
        self._usual = starting(sizes)
        self._open: Session | None = None
        self._lock = Lock()

    def run(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs by name; see ``Session.run``."""
        if all(values[name].shape == shape for name, shape in self._sizes.items()):
            return self._usual.run(values)
        with self._lock:
            if self._open is None:
                self._open = self._starting({})
        return self._open.run(values)


def start(
    model: SegmentModel,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    *,
    places: Callable[[str], str],
    settings: RunSettings,
) -> Session | UsualSession:
    """Start a session; if all that it reads are inputs of the net whose usual sizes are known, at these.

    Args:
        model: What it runs.
        inputs: Names of its inputs.
        outputs: Names of its outputs.
        places: Where each node stands, for a message, given its name.
        settings: Purpose, threads and usual sizes; the precision is float32.

    Raises:
        RunError: The runtime refuses the model.
    """

    def started(sizes: Mapping[str, tuple[int, ...]]) -> Session:
        options = _options(SESSIONS[settings.purpose], settings.num_threads)
        for name, shape in sizes.items():
            for axis, size in enumerate(shape):
                options.add_free_dimension_override_by_name(open_size(name, axis), size)
        if model.arrays:
            arrays = [ort.OrtValue.ortvalue_from_numpy(array) for array in model.arrays.values()]
            options.add_external_initializers(list(model.arrays), arrays)
        try:
            session = ort.InferenceSession(model.content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the runtime's errors have no base of their own
            raise RunError(f"ONNX Runtime rejects the net: {_reason(error)}") from error
        return Session(session, places, inputs, outputs, model.fed)

    if inputs and settings.usual_sizes.keys() >= set(inputs):
        return UsualSession(started, {name: settings.usual_sizes[name] for name in inputs})
    return started({})


def _options(settings: SessionSettings, num_threads: int) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = _ERRORS_ONLY
    options.graph_optimization_level = settings.level
    options.intra_op_num_threads = num_threads
    # more threads than cores would wait awake for one that does not run
    spins = settings.spins and num_threads <= num_cores()
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(spins)))
    options.enable_mem_reuse = settings.plans_memory
    options.enable_mem_pattern = settings.plans_memory
    options.enable_cpu_mem_arena = settings.pools_memory
    options.add_session_config_entry("session.disable_prepacking", str(int(not settings.prepacks)))
    return options


_AT_NODE = re.compile(
    r"while running \w+ node\. Name:'(?P<name>.*?)' Status Message: (?P<reason>.*)", re.DOTALL
)


def _explained(error: Exception, places: Callable[[str], str]) -> str:
    """Return the runtime's message with the place of the node that it names."""
    at = _AT_NODE.search(str(error))
    if at is None:
        return f"ONNX Runtime cannot run the net on these inputs: {_reason(error)}"
    return f"{places(at['name'])}: ONNX Runtime cannot run it on these inputs: {at['reason'].strip()}"


def _reason(error: Exception) -> str:
    """Return the runtime's message without its code: ``[ONNXRuntimeError] : 1 : FAIL : reason``."""
    return str(error).split(" : ", 3)[-1].strip()


_WINDOWED = frozenset({"AveragePool", "Conv", "LpPool", "MaxPool"})


def sized(graph: Graph, make: Callable[[Graph], Runner]) -> Runner:
    """Make a graph ready, now if its padding is known or can be left to ONNX Runtime, else when it is run.

    Args:
        graph: The graph; it is not changed.
        make: Makes a graph ready that has no rule that ONNX Runtime refuses.
    """
    if not any(map(_is_refused, graph.nodes)):
        return make(graph)
    graph = explicit(graph)
    return SizedRunner(graph, make) if any(map(_is_refused, graph.nodes)) else make(graph)


def _is_refused(node: ir.Node) -> bool:
    """Return whether ONNX Runtime refuses a SAME rule.

    It refuses a dilated window, and one that may need negative padding.
    """
    if node.op_type not in _WINDOWED or node.domain:
        return False
    attributes = attributes_of(node)
    if attributes.get("auto_pad", "NOTSET") not in {"SAME_UPPER", "SAME_LOWER"}:
        return False
    dilated = any(dilation > 1 for dilation in attributes.get("dilations", ()))
    kernel, strides = attributes.get("kernel_shape", ()), attributes.get("strides", ())
    return dilated or any(stride > k for k, stride in zip(kernel, strides, strict=False))


_KNOWN_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})


def prepare(graph: Graph, taps: Sequence[str], settings: RunSettings) -> Runner:
    """Make a graph ready to run; its stored arrays are read (or drawn) now, once.

    A graph with a padding rule that ONNX Runtime refuses is made ready for each input size anew.

    Args:
        graph: The graph; it is not changed.
        taps: Names of values to return besides the graph's outputs.
        settings: Purpose, precision and threads.

    Raises:
        UsageError: There is no such value to tap, or the precision is not float32.
        RunError: The graph holds operators that neither ONNX Runtime nor the registry has.
    """
    check_float32(settings, "ONNX Runtime")
    names = wanted_names(graph, taps)
    check_domains(graph, _KNOWN_DOMAINS, "ONNX Runtime")
    if any(map(_is_group_norm, graph.nodes)):
        graph = spread_group_norm(graph)

    def ready(known: Graph) -> SegmentedRunner:
        return prepare_segments(known, names, [runtime(known, settings)])

    return sized(graph, ready)


def prepare_nodes(
    graph: Graph,
    nodes: Sequence[ir.Node],
    inputs: Sequence[ir.Value],
    outputs: Sequence[ir.Value],
    settings: RunSettings,
) -> Runner:
    """Make some nodes of a graph ready to run; see ``netweave.runtime.backends.prepare_nodes``."""
    if any(_is_refused(node) or _is_group_norm(node) for node in nodes):
        names = [str(value.name) for value in outputs]
        part = extract(graph, inputs=[str(value.name) for value in inputs], outputs=names)
        return prepare(part, names, settings)
    check_domains(graph, _KNOWN_DOMAINS, "ONNX Runtime", nodes=nodes)
    return start_segments(graph, nodes, inputs, {str(v.name): v for v in outputs}, [runtime(graph, settings)])


def _is_group_norm(node: ir.Node) -> bool:
    return node.op_type == "GroupNormalization"


def runtime(graph: Graph, settings: RunSettings) -> Runtime:
    """Return ONNX Runtime as something that runs segments of a graph."""
    own = SESSIONS[settings.purpose]
    return Runtime(
        takes=lambda node: node.domain != DOMAIN,
        start=partial(start, places=_places(graph), settings=settings),
        by_reference=True,
        feeds_weights=own.feeds_weights,
        takes_sizes=own.plans_memory,
        max_nodes=own.max_nodes,
    )


def _places(graph: Graph) -> Callable[[str], str]:
    """Return what says where a node of a graph stands, given its name."""

    def place(name: str) -> str:
        node = next((node for node in graph.nodes if node.name == name), None)
        return f"{graph.name}: {name!r}" if node is None else graph.place_of(node)

    return place
