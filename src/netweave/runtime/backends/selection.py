"""Choosing the fastest backend for a graph by trying those that are installed."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from statistics import median

import numpy as np
import onnx_ir as ir

from netweave.errors import NetweaveError, RunError
from netweave.graph import Effect, Graph, effects_of
from netweave.runtime.backends.inputs import check_inputs
from netweave.runtime.backends.runner import BACKENDS, TAPPING, Runner, RunSettings, prepare
from netweave.runtime.backends.trials import Choices, in_turns

SLOWER = 2.0
"""A backend that takes longer than this, relative to the fastest in the first round, is not timed further.

Far above any difference that matters, since one round says little on a machine that does other things too.
"""

MIN_ROUNDS = 3
MAX_ROUNDS = 15
BUDGET_S = 2.0
"""Rounds go on until the budget is spent, but there are at least the fewest and at most the most."""

BLOCK_S = 0.25
"""Runs of a backend follow one another for so long in each round, until it runs as it will for good.

Threads of another backend may still spin in the beginning, and short blocks mislead: in blocks of 50 ms ONNX
Runtime won for MobileNet v2, and OpenVINO in blocks of 250 ms.
"""

TOLERANCES = {"f32": 1e-3, "bf16": 0.2, "f16": 0.05}
"""By precision: an output whose error, relative to its rms, is larger is another net's.

The rms of the error is taken, not the largest: half precision moves single elements of a discontinuous output
(a box that is suppressed or not) by any amount. The bounds tell rounding that adds up over hundreds of
layers from an operator that a backend computes otherwise, and nothing finer.
"""


PACKAGES = {"opencv": ("opencv-python-headless", "opencv-python", "opencv-contrib-python")}
"""Packages that a backend may come in, where they have other names than it."""


@dataclass(frozen=True, slots=True)
class BackendTrial:
    """Result of trying one backend.

    Attributes:
        backend: Its name.
        times_s: Time of a run in each round; none if it cannot be used.
        prepare_s: How long it took to make the net ready.
        failure: Why it cannot be used; empty if it can.
    """

    backend: str
    times_s: tuple[float, ...] = ()
    prepare_s: float = 0.0
    failure: str = ""

    @property
    def median_s(self) -> float:
        """The median time of a run; infinite if the backend cannot be used."""
        return median(self.times_s) if self.times_s else float("inf")

    @property
    def fastest_s(self) -> float:
        """The time in the fastest round, by which backends are ranked: what else runs can only add to it."""
        return min(self.times_s, default=float("inf"))


@dataclass(frozen=True, slots=True)
class Selection:
    """The fastest backend.

    Attributes:
        backend: Its name.
        runner: The graph made ready on it.
        trials: What came of trying each, the fastest first.
    """

    backend: str
    runner: Runner
    trials: tuple[BackendTrial, ...]


def select(
    graph: Graph,
    settings: RunSettings,
    inputs: Mapping[str, np.ndarray],
    *,
    backends: Sequence[str] = BACKENDS,
    again: bool = False,
) -> Selection:
    """Make a graph ready on each backend, and return the one that runs it fastest.

    A backend that is not installed, lacks the precision, rejects the graph or computes something else than
    ONNX Runtime without optimisations is left out. Backends are run in turns, so that what else happens on
    the machine meets all of them. What came of it is remembered by net, weights and sizes, settings, versions
    of the backends and processor, and the next time only the fastest one is made ready.

    Args:
        graph: The graph; it is not changed.
        settings: What it is made ready for.
        inputs: What it is run on.
        backends: Names of the backends to try.
        again: Try them even if it is remembered.

    Raises:
        RunError: The inputs do not fit, or no backend can run it; the message says why for each.
    """
    check_inputs(graph.inputs, inputs)
    choices, question = Choices(), _question(graph, settings, inputs, backends)
    remembered = None if again else _remembered(choices.get(question), graph, settings)
    if remembered is not None:
        return remembered
    selection = _tried(graph, settings, inputs, backends)
    choices.keep(question, json.dumps([asdict(trial) for trial in selection.trials]))
    return selection


def _question(
    graph: Graph, settings: RunSettings, inputs: Mapping[str, np.ndarray], backends: Sequence[str]
) -> str:
    """Return what a trial is about: all that its outcome depends on besides the processor."""
    digest = hashlib.sha256()
    for node in graph.nodes:
        digest.update(ir.serde.serialize_node(node).SerializeToString(deterministic=True))
    for function in graph.model.functions.values():
        digest.update(ir.serde.serialize_function(function).SerializeToString(deterministic=True))
    for name, value in graph.model.graph.initializers.items():
        digest.update(f"{name} {value.dtype} {value.shape}".encode())
        array = np.asarray([] if value.const_value is None else value.const_value.numpy())
        if array.dtype.hasobject:  # texts
            digest.update(repr(array.tolist()).encode())
        else:
            digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    sizes = {name: (array.dtype.str, array.shape) for name, array in sorted(inputs.items())}
    versions = {backend: _version(backend) for backend in backends}
    asked = replace(settings, usual_sizes=dict(sorted(settings.usual_sizes.items())))
    digest.update(repr((asked, sizes, versions)).encode())
    return f"backend for {graph.name[:80]}, {digest.hexdigest()}"


def _version(backend: str) -> str:
    """Return the version of a backend's package; empty if it is not installed."""
    for package in PACKAGES.get(backend, (backend,)):
        with suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(package)
    return ""


def _remembered(text: str | None, graph: Graph, settings: RunSettings) -> Selection | None:
    """Make a graph ready on the backend that was the fastest in remembered trials; None if that fails."""
    try:
        rows = json.loads(text or "")
        trials = tuple(BackendTrial(**{**row, "times_s": tuple(row["times_s"])}) for row in rows)
        backend = trials[0].backend
        return Selection(backend, prepare(graph, backend=backend, settings=settings), trials)
    except (ValueError, TypeError, LookupError, NetweaveError):
        return None


def _tried(
    graph: Graph, settings: RunSettings, inputs: Mapping[str, np.ndarray], backends: Sequence[str]
) -> Selection:
    expected = _expected(graph, inputs)
    runners: dict[str, Runner] = {}
    trials: dict[str, BackendTrial] = {}
    firsts: dict[str, float] = {}
    for backend in backends:
        began = time.perf_counter()
        try:
            runner = prepare(graph, backend=backend, settings=settings)
            ready = time.perf_counter()
            _check_outputs(runner.run(inputs), expected, settings.precision)
        except NetweaveError as error:
            trials[backend] = BackendTrial(backend, failure=str(error))
            continue
        trials[backend] = BackendTrial(backend, prepare_s=ready - began)
        firsts[backend] = min(_seconds(runner, inputs) for _ in range(2))  # buffers may grow in the first
        runners[backend] = runner
        for slow in [name for name in runners if firsts[name] > SLOWER * min(firsts.values())]:
            del runners[slow]  # at once: each holds the weights of the net
    if not runners:
        reasons = "; ".join(f"{trial.backend}: {trial.failure}" for trial in trials.values())
        raise RunError(f"{graph.name}: no backend can run it in {settings.precision}: {reasons}")
    times = _times(runners, inputs)
    for backend, first in firsts.items():
        trial = trials[backend]
        trials[backend] = BackendTrial(backend, times.get(backend, (first,)), trial.prepare_s)
    ranked = tuple(sorted(trials.values(), key=lambda trial: trial.fastest_s))
    best = next(trial.backend for trial in ranked if trial.backend in runners)
    return Selection(best, runners[best], ranked)


def _times(runners: Mapping[str, Runner], inputs: Mapping[str, np.ndarray]) -> dict[str, tuple[float, ...]]:
    """Return the seconds of each runner in each round; those of one alone are measured too."""
    measures = {backend: partial(_seconds, runner, inputs) for backend, runner in runners.items()}
    return in_turns(measures, min_rounds=MIN_ROUNDS, max_rounds=MAX_ROUNDS, budget_s=BUDGET_S)


def _seconds(runner: Runner, inputs: Mapping[str, np.ndarray]) -> float:
    """Return the seconds of a run; of short ones the median of the later half of a block."""
    runs: list[float] = []
    began = time.perf_counter()
    while not runs or time.perf_counter() - began < BLOCK_S:
        start = time.perf_counter()
        runner.run(inputs)
        runs.append(time.perf_counter() - start)
    return median(runs[len(runs) // 2 :])


def _expected(graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    """Return the outputs to agree with; None if there are none.

    A net that draws never has the same outputs, and ONNX Runtime may lack what another backend has.
    """
    if any(Effect.RANDOM in effects_of(node) for node in graph.nodes):
        return None
    try:
        return prepare(graph, settings=TAPPING).run(inputs)
    except RunError:
        return None


def _check_outputs(
    outputs: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray] | None, precision: str
) -> None:
    """Check outputs against those that are known to be right.

    Raises:
        RunError: They differ by more than the precision explains.
    """
    for name, right in (expected or {}).items():
        error = _relative_error(outputs[name], right)
        if not error <= TOLERANCES[precision]:
            raise RunError(
                f"it computes something else: output {name!r} differs from that of ONNX Runtime without "
                f"optimisations by {error:.2g} of its rms, more than {precision} explains"
            )


def _relative_error(output: np.ndarray, right: np.ndarray) -> float:
    """Return the rms of the error, relative to that of the right values; infinite for another shape."""
    if output.shape != right.shape:
        return float("inf")
    if right.dtype.kind != "f" or not right.size:
        return 0.0
    finite = np.isfinite(right)
    if not np.array_equal(finite, np.isfinite(output)):
        return float("inf")
    wide = right[finite].astype(np.float64)
    error = float(np.sqrt(np.mean(np.square(output[finite] - wide)))) if wide.size else 0.0
    return error / (float(np.sqrt(np.mean(np.square(wide)))) or 1.0)
