"""Runs, timings and memory as text."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from netweave.cli.console import LINE_BELOW_HEAD, PlainConsole, output_console
from netweave.cli.net_view import heading
from netweave.cli.run_log import log_of, rate_text
from netweave.graph import Graph
from netweave.graph.summary import amount_text, bytes_text, dims_text
from netweave.job import Job
from netweave.training import Ended, Event, Stopped, Updated

if TYPE_CHECKING:
    from rich.console import Console

    from netweave.api.jobs import RunningJob
    from netweave.api.timing import InferenceTime, NetTime
    from netweave.runtime.memory_plan import MeasuredMemory, MemoryReport


STATISTICS: Mapping[str, Callable[[np.ndarray], float]] = {
    "min": lambda x: float(x.min()),
    "mean": lambda x: float(x.mean()),
    "max": lambda x: float(x.max()),
    "rms": lambda x: float(np.sqrt(np.square(x).mean())),
}
"""What is said of an array's values."""

DRAWN_NOTE = "note: no weights were found; they were drawn, and so the values say nothing of a trained net"

FIRST_VALUES_NOTE = "note: the weights are first values, and so the values say nothing of a trained net"


def show_results(
    console: Console,
    graph: Graph,
    given: Mapping[str, np.ndarray],
    results: Mapping[str, np.ndarray],
    *,
    taps: Sequence[str],
    output_file: str | None,
) -> None:
    """Print inputs, outputs and taps of a run: sizes and the spread of the values."""
    table = Table(box=LINE_BELOW_HEAD, header_style="bold", pad_edge=False)
    table.add_column("", style="dim")
    table.add_column("value", overflow="fold")
    table.add_column("shape", overflow="fold")
    for name in STATISTICS:
        table.add_column(name, justify="right", no_wrap=True)
    rows = [("in", name, array) for name, array in given.items()]
    rows += [("tap" if name in taps else "out", name, array) for name, array in results.items()]
    for label, name, array in rows:
        numbers = (f"{number:.4g}" for number in statistics(array).values())
        table.add_row(label, Text(name), dims_text(array.shape), *numbers)
    console.print(heading(graph), table, sep="\n")
    if not graph.loaded or graph.initial:
        note = FIRST_VALUES_NOTE if graph.loaded else DRAWN_NOTE
        console.print(Text(note, style="yellow"))
    if output_file:
        console.print(Text.assemble(("wrote ", "green"), (output_file, "bold")))


def statistics(array: np.ndarray) -> dict[str, float]:
    """Return the spread of an array's values, summed in float64; empty for an empty array."""
    if not array.size:
        return {}
    wide = array.astype(np.float64)
    return {name: measure(wide) for name, measure in STATISTICS.items()}


def results_json(
    graph: Graph, given: Mapping[str, np.ndarray], results: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """Return inputs and outputs of a run as JSON values, without the arrays themselves."""
    return {
        "net": graph.name,
        "files": list(graph.files),
        "inputs": {name: _array_json(array) for name, array in given.items()},
        "outputs": {name: _array_json(array) for name, array in results.items()},
    }


def _array_json(array: np.ndarray) -> dict[str, Any]:
    return {"shape": list(array.shape), "dtype": str(array.dtype), **statistics(array)}


class TrainView:
    """The log on standard output, the bar on standard error.

    Args:
        job: What is trained.
        entry: Its entry in the register of jobs, if it has one.
        silent: Show nothing; for ranks but the first.

    Attributes:
        stopped: Whether the run was asked to stop before its end.
    """

    def __init__(self, job: Job, entry: RunningJob | None = None, *, silent: bool = False) -> None:
        self.stopped = False
        self._silent = silent
        self._console = output_console()
        self._log = log_of(job.phases["train"].graph.format)
        if entry is not None:
            for line in self._log.opening(entry.id):
                self._line(line)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[numbers]}"),
            console=PlainConsole(stderr=True),
            transient=True,
            disable=silent or not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task("training", total=job.schedule.max_iterations, numbers="")
        first = next(iter(job.phases["train"].data), None)
        self._records = (first.batch_size if first else 1) * job.solver.accumulate
        self._began: tuple[int, float] | None = None
        for note in job.notes:
            self._line(note)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def _move(self, event: Updated) -> None:
        """Move the bar."""
        if self._bar.disable:
            return
        done = event.iteration + 1
        numbers = f"loss {event.loss:.4g}, lr {event.rate:.3g}{self._speed(done)}"
        self._bar.update(self._task, completed=done, numbers=numbers)

    def _speed(self, iteration: int) -> str:
        """Return the records per second of this run so far, in words."""
        now = perf_counter()
        if self._began is None:
            self._began = (iteration, now)
        done, seconds = (iteration - self._began[0]) * self._records, now - self._began[1]
        return f", {rate_text(done / seconds)} images/s" if done else ""

    def show(self, event: Event) -> None:
        """Show what has happened."""
        if isinstance(event, Updated):
            self._move(event)
        elif isinstance(event, Ended):
            self._show_busy(event)
        else:
            self.stopped = self.stopped or isinstance(event, Stopped)
            for line in self._log.lines(event):
                self._line(line)

    def _show_busy(self, event: Ended) -> None:
        """Show how busy the run was; on standard error, since the last line of the log is the last test."""
        lanes = event.lanes
        if event.goodput and event.goodput.num_starts > 1 and not self._silent:
            self._bar.console.print(str(event.goodput), soft_wrap=True)
        if event.work:
            for one in () if self._silent else event.work:
                self._bar.console.print(str(one), soft_wrap=True)
            return
        shares = ", ".join(
            f"{name} {lane.mean_running:.0%}" for name, lane in lanes.items() if lane.num_tasks
        )
        self._bar.console.print(f"busy: {shares}")

    def _line(self, text: str) -> None:
        if not self._silent:
            self._console.print(text, soft_wrap=True)


def show_times(console: Console, found: NetTime, *, backward: bool) -> None:
    """Print a table of the layers, and the times of the whole net below."""
    table = Table(box=LINE_BELOW_HEAD, header_style="bold", pad_edge=False)
    for name in ("layer", "type"):
        table.add_column(name, overflow="fold")
    for name in ("forward ms", "backward ms", "share")[: 3 if backward else 1]:
        table.add_column(name, justify="right", no_wrap=True)
    if not backward:
        table.add_column("share", justify="right", no_wrap=True)
    whole = sum(layer.forward_s + layer.backward_s for layer in found.layers)
    for layer in found.layers:
        both = layer.forward_s + layer.backward_s
        numbers = [_ms(layer.forward_s), _ms(layer.backward_s)][: 2 if backward else 1]
        share = f"{both / whole:.1%}" if whole else ""
        table.add_row(Text(layer.name), Text(layer.type), *numbers, share)
    console.print(table)
    sizes = ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in found.inputs.items())
    console.print(f"inputs: {sizes}; means of {found.iterations} passes", soft_wrap=True)
    parts = [f"forward {_ms(found.forward_s)} ms"]
    if backward:
        parts.append(f"backward {_ms(found.backward_s)} ms")
        parts.append(f"both {_ms(found.forward_s + found.backward_s)} ms")
    console.print(f"whole net at once: {', '.join(parts)}")


def times_json(found: NetTime) -> dict[str, Any]:
    """Return times as JSON values, in seconds."""
    return {
        "layers": [
            {
                "name": layer.name,
                "type": layer.type,
                "forward_s": layer.forward_s,
                "backward_s": layer.backward_s,
            }
            for layer in found.layers
        ],
        "forward_s": found.forward_s,
        "backward_s": found.backward_s,
        "inputs": {name: list(shape) for name, shape in found.inputs.items()},
        "iterations": found.iterations,
    }


def show_inference(console: Console, found: InferenceTime) -> None:
    """Print how long the backends took that were tried, and how long the chosen one takes."""
    if found.trials:
        table = Table(box=LINE_BELOW_HEAD, header_style="bold", pad_edge=False)
        table.add_column("backend")
        for name in ("ready in s", "median ms", "least ms", "most ms"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("", overflow="fold")
        for trial in found.trials:
            times = (trial.median_s, min(trial.times_s), max(trial.times_s)) if trial.times_s else ()
            numbers = [f"{trial.prepare_s:.2f}", *map(_ms, times)] if times else [""] * 4
            note = "chosen" if trial.backend == found.backend else trial.failure
            table.add_row(trial.backend, *numbers, Text(note))
        console.print(table)
    sizes = ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in found.inputs.items())
    least, most = min(found.runs_s), max(found.runs_s)
    console.print(
        f"inputs: {sizes}; {found.backend} in {found.precision} with {found.threads} threads: median "
        f"{_ms(median(found.runs_s))} ms of {len(found.runs_s)} runs ({_ms(least)} to {_ms(most)})",
        soft_wrap=True,
    )


def inference_json(found: InferenceTime) -> dict[str, Any]:
    """Return times as JSON values, in seconds."""
    return {
        "backend": found.backend,
        "precision": found.precision,
        "threads": found.threads,
        "median_s": median(found.runs_s),
        "runs_s": list(found.runs_s),
        "inputs": {name: list(shape) for name, shape in found.inputs.items()},
        "trials": [
            {
                "backend": trial.backend,
                "times_s": list(trial.times_s),
                "prepare_s": trial.prepare_s,
                "failure": trial.failure,
            }
            for trial in found.trials
        ],
    }


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3f}"


LEAST_SECONDS = 0.005
"""Stages that took less are shown together."""

SHORT = "shorter stages"


def show_profile(console: Console, seconds: Mapping[str, float]) -> None:
    """Show the time of each stage, in order, and the most memory that the process took.

    Args:
        console: Where to show it.
        seconds: Time of each stage, by name.
    """
    total = sum(seconds.values())
    long = {stage: taken for stage, taken in seconds.items() if taken >= LEAST_SECONDS}
    short = total - sum(long.values())
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(justify="right", style="dim")
    for stage, taken in [*long.items(), *([(SHORT, short)] if short else []), ("total", total)]:
        table.add_row(stage, f"{taken:.2f} s", f"{100 * taken / total:.0f} %" if total else "")
    console.print()
    console.print(table)
    console.print(Text(f"peak memory {bytes_text(peak_bytes())}", style="dim"))


def peak_bytes() -> int:
    """Return the most memory that this process took so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def show_memory(console: Console, found: MemoryReport, measured: MeasuredMemory | None) -> None:
    """Print a table of the plans, and below it what no plan changes."""
    table = Table(box=LINE_BELOW_HEAD, header_style="bold", pad_edge=False)
    table.add_column("plan", no_wrap=True)
    for name in ("memory", "of none", "extra multiply-adds"):
        table.add_column(name, justify="right", no_wrap=True)
    none = found.plans[0].num_bytes
    for plan in found.plans:
        extra = ""
        if plan.extra_multiply_adds:
            share = plan.extra_multiply_adds / max(found.multiply_adds, 1)
            extra = f"{amount_text(plan.extra_multiply_adds)} ({share:.1%})"
        of_none = f"{plan.num_bytes / none:.1%}" if none else ""
        table.add_row(plan.name, bytes_text(plan.num_bytes), of_none, extra)
    console.print(table)
    fixed = [f"{bytes_text(found.parameters)} of parameters", f"{bytes_text(found.inputs)} of inputs"]
    if found.training:
        fixed.insert(1, f"{bytes_text(found.parameter_gradients)} of their gradients")
    console.print(f"besides: {', '.join(fixed)}; batch {found.batch}", soft_wrap=True)
    if measured is not None:
        gradients = ", gradients of parameters among it" if found.training else ""
        threads = ""
        if measured.num_threads > 1:
            with_threads = bytes_text(measured.peak_with_threads)
            threads = f" with 1 thread, {with_threads} with {measured.num_threads}"
        console.print(
            f"at once at most: planned {bytes_text(found.step_peak)}, "
            f"measured {bytes_text(measured.peak)}{threads}{gradients}",
            soft_wrap=True,
        )


def memory_json(found: MemoryReport, measured: MeasuredMemory | None) -> dict[str, Any]:
    """Return the plans as JSON values, in bytes."""
    return {
        "batch": found.batch,
        "training": found.training,
        "parameters": found.parameters,
        "parameter_gradients": found.parameter_gradients,
        "inputs": found.inputs,
        "multiply_adds": found.multiply_adds,
        "plans": [
            {
                "name": plan.name,
                "bytes": plan.num_bytes,
                "extra_multiply_adds": plan.extra_multiply_adds,
            }
            for plan in found.plans
        ],
        "step_peak": found.step_peak,
        "measured": None if measured is None else measured.peak,
        "threads": None if measured is None else measured.num_threads,
        "measured_with_threads": None if measured is None else measured.peak_with_threads,
    }
