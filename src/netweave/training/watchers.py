"""Watchers and options of a run."""

from __future__ import annotations

import io
import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from netweave.errors import UsageError
from netweave.files.output_files import write_file, writing
from netweave.installation import install_command
from netweave.job import Cluster
from netweave.options import Options
from netweave.training.events import Evaluated, Event, Shown, Updated, ValuesSeen, ValueStatistics, Watch
from netweave.training.history import History, by_phase
from netweave.training.parallel.environment import STOP_SIGNALS
from netweave.training.parallel.plan import PIPELINES, ExchangeSettings

if TYPE_CHECKING:
    from netweave.training.monitor import Monitor

REDRAW_S = 30.0
"""A picture takes about a second, in which nothing is trained."""


class Watcher(Protocol):
    """Is told of events, and closed at the end of the run, however it ends."""

    def show(self, event: Event) -> None:
        """Take an event in."""

    def close(self) -> None:
        """Write what is left."""


class EventFiles:
    """Writes scalars for TensorBoard: loss and rate of each update, outputs of tests, and watched values.

    Args:
        folder: Where the event file is made; a run that goes on adds another one.

    Raises:
        UsageError: The package is not installed.
        WriteError: The folder cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboard.compat.proto import event_pb2, histogram_pb2, summary_pb2
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError as error:
            raise _missing("event files", "tensorboard") from error
        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        self._histogram_proto = histogram_pb2.HistogramProto
        self._place = f"event files in {folder}"
        with writing(self._place):
            folder.mkdir(parents=True, exist_ok=True)
            self._writer = EventFileWriter(str(folder))

    def show(self, event: Event) -> None:
        """Write objective and rate of an update, and the outputs of a display or a test."""
        if isinstance(event, Updated):
            self._add(event.iteration, [("train/objective", event.loss), ("train/rate", event.rate)])
        elif isinstance(event, Shown):
            self._add(event.iteration, by_phase("train", event.outputs))
            if event.images_per_s is not None:
                self._add(event.iteration, [("train/images_per_s", event.images_per_s)])
        elif isinstance(event, Evaluated):
            self._add(event.iteration, by_phase(event.phase, event.outputs))
        elif isinstance(event, ValuesSeen):
            self._add_values(event)

    def close(self) -> None:
        """Write what is left."""
        with writing(self._place):
            self._writer.close()

    def _add_values(self, event: ValuesSeen) -> None:
        """Write the statistics of watched values, and their histograms."""
        scalars, histograms = [], []
        for name, seen in event.values.items():
            if isinstance(seen, ValueStatistics):
                numbers = {"mean": seen.mean, "std": seen.std, "min": seen.minimum, "max": seen.maximum}
                scalars += [(f"watch/{name}/{what}", number) for what, number in numbers.items()]
                if sum(seen.counts):
                    histograms.append((f"watch/{name}", self._histogram(seen)))
            elif isinstance(seen, int | float) or getattr(seen, "ndim", None) == 0:
                scalars.append((f"watch/{name}", float(seen)))
        self._add(event.iteration, scalars, histograms)

    def _histogram(self, seen: ValueStatistics) -> Any:
        """Return a histogram in TensorBoard's form: the upper end and the number of each bin."""
        num, bins = sum(seen.counts), len(seen.counts)
        low, high = seen.minimum, seen.maximum
        if low == high:
            low, high = low - 1, high + 1  # as torch widens it
        return self._histogram_proto(
            min=seen.minimum,
            max=seen.maximum,
            num=num,
            sum=seen.mean * num,
            sum_squares=(seen.std**2 + seen.mean**2) * num,
            bucket_limit=[low + (high - low) * (number + 1) / bins for number in range(bins)],
            bucket=seen.counts,
        )

    def _add(
        self,
        iteration: int,
        values: Iterable[tuple[str, float]],
        histograms: Iterable[tuple[str, Any]] = (),
    ) -> None:
        rows = [self._summary.Value(tag=tag, simple_value=value) for tag, value in values]
        rows += [self._summary.Value(tag=tag, histo=histogram) for tag, histogram in histograms]
        event = self._event(wall_time=time.time(), step=iteration, summary=self._summary(value=rows))
        with writing(self._place):
            self._writer.add_event(event)


class Curves:
    """Draws the curves of a run as a picture: at the end, and after tests, if the last is some time ago.

    Args:
        file: The picture; the end of its name says of which kind it is (``.png``, ``.svg``, ``.pdf``).
        history: The curves, with what the run has done before it was stopped.

    Raises:
        UsageError: The package is not installed, or the kind is unknown.
    """

    def __init__(self, file: Path, history: History) -> None:
        try:
            from matplotlib import rc_context
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError as error:
            raise _missing("pictures of curves", "matplotlib") from error
        kinds = FigureCanvasAgg(Figure()).get_supported_filetypes()
        if file.suffix.removeprefix(".") not in kinds:
            raise UsageError(f"{file}: curves are drawn as {', '.join(sorted(f'.{kind}' for kind in kinds))}")
        self._file = file
        self._drawn_s = time.monotonic()
        self._figure, self._settings = Figure, rc_context
        self._history = history

    def show(self, event: Event) -> None:
        """Draw after a test."""
        if isinstance(event, Evaluated) and time.monotonic() - self._drawn_s > REDRAW_S:
            self._draw()

    def close(self) -> None:
        """Draw for the last time."""
        if self._history.curves:
            self._draw()

    def _draw(self) -> None:
        self._drawn_s = time.monotonic()
        points = {name: curve.points() for name, curve in self._history.curves.items()}
        losses = self._history.losses
        panels = [
            ("loss", [name for name in points if name in losses]),
            ("outputs", [name for name in points if name not in {*losses, "train/rate"}]),
            ("learning rate", [name for name in points if name == "train/rate"]),
        ]
        drawn = [(title, names) for title, names in panels if names]
        figure = self._figure(figsize=(8, 2.6 * len(drawn)), layout="constrained")
        rows = figure.subplots(len(drawn), squeeze=False, sharex=True)
        for axes, (title, names) in zip(rows[:, 0], drawn, strict=True):
            for name in names:
                xs, ys = zip(*points[name], strict=True)
                few = len(xs) < 50
                axes.plot(xs, ys, label=name, linewidth=1, marker="o" if few else None, markersize=3)
            if title == "loss" and _spread([value for name in names for _, value in points[name]]) > 100:
                axes.set_yscale("log")
            axes.set_ylabel(title)
            axes.grid(alpha=0.3)
            if title != "learning rate":
                axes.legend()
        figure.axes[-1].set_xlabel("iteration")
        content = io.BytesIO()
        with self._settings({"svg.fonttype": "none"}):  # words stay words
            figure.savefig(content, format=self._file.suffix.removeprefix("."))
        with writing(self._file):
            self._file.parent.mkdir(parents=True, exist_ok=True)
        write_file(self._file, content.getvalue())


def _spread(values: list[float]) -> float:
    good = [value for value in values if math.isfinite(value) and value > 0]
    return max(good) / min(good) if len(good) == len(values) and good else 1.0


def _missing(what: str, package: str) -> UsageError:
    return UsageError(f"{what} need the package {package}: {install_command('curves')}")


class Audience:
    """All that watch a run.

    Args:
        watch: The caller's own.
    """

    def __init__(self, watch: Watch | None) -> None:
        self._watch = [watch] if watch else []
        self._watchers: list[Watcher] = []

    def add(self, history: History, *, events: Path | None, plot: Path | None) -> None:
        """Add what is to watch besides: event files in a folder, a picture of the curves of a history.

        Raises:
            UsageError: A package is not installed.
            WriteError: A file cannot be written.
        """
        if plot is not None:
            self._watchers.append(Curves(plot, history))
        if events is not None:
            self._watchers.append(EventFiles(events))
        self._watch += [watcher.show for watcher in self._watchers]

    def watch(self, watch: Watch) -> None:
        """Add one that is told of the events from now on."""
        self._watch.append(watch)

    def show(self, event: Event) -> None:
        """Tell all of an event."""
        for watch in self._watch:
            watch(event)

    def close(self) -> None:
        """Let all write what is left."""
        for watcher in self._watchers:
            watcher.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions(Options):
    """Options of a training run.

    Attributes:
        data: By phase (``train``, ``test``), arrays of all records by input, instead of the Job's own data.
        resume: A checkpoint, or Caffe's ``.solverstate``, to resume from; True for the latest complete one;
            ``"auto"`` for that one, or for a start from the beginning where there is none.
        weights: Weight files to start from, instead of the Job's.
        device: Torch's name of the device to compute on; the CPU by default.
        devices: Several devices of this machine, a process each: ``cpu:2``, or ``0,1`` for GPUs.
        precision: ``f32``, or ``bf16`` for convolutions and matrix products in bfloat16; parameters, their
            updates and losses stay in float32.
        seed: Random seed, instead of the Job's; a run that is resumed keeps its own.
        threads: Number of decoder threads, >= 1; None to choose it automatically.
        trace: File for a timeline in Chrome's trace format.
        events: Folder for TensorBoard event files.
        plot: File for a plot of loss, test results and learning rate, from the beginning of the run even
            after it was resumed.
        keep: Number of Netweave checkpoints to keep, >= 1; 3 by default.
        checkpoint_every: Time after which a checkpoint is due, besides the Job's iterations, > 0: seconds, or
            a text such as ``60s``, ``10m`` or ``2h``.
        ledger: File in which the run notes where its time goes, over all its starts; see
            ``netweave.training.goodput``.
        num_stages: Number of stages that the net is split into, >= 1, each with its own tasks; the result is
            bit-identical for any number. By default 1, or 16 on several ranks.
        memory: Memory limit of the run, on each rank: bytes, or a size such as ``4GB``. Backward then
            recomputes as few values as needed instead of keeping them; the result is bit-identical.
        exchange: How ranks exchange gradients: ``overlapped``, ``blocking``, ``prioritised``, ``owner``,
            ``owner-by-layer`` or ``two-level``.
        compression: Form in which they are sent: ``none``, ``fp16``, ``bf16`` or ``2bit``.
        threshold: What one 2-bit code stands for, such as 0.005; needed with ``2bit`` alone. Momentum and
            2-bit codes hardly go together (see the how-to on several devices).
        batch: Whether ranks ``split`` the Job's batch or ``multiply`` it; by default what its source does.
        sync_batch_norm: Whether batch normalisation takes the statistics of the whole batch; False for each
            rank's own part, which needs no communication in forward.
        same_bits: Number of shards, >= 1, that a batch is divided into for updates that are bit-identical on
            any number of ranks that divides it; None for updates that depend on the number of ranks.
        other_bits: Whether a run that is resumed may go on where such updates cannot be those of the run
            before: with another number of shards, on another processor or with another torch.
        slice_elements: Elements of a slice, the unit of exchange, a multiple of 64; chosen by the link by
            default. A run that is resumed keeps its own.
        timeout_s: Seconds to wait for a rank, > 0; 60 by default.
        monitor: Values of the training net to look at: names of layers, values or parameters, or patterns
            with ``*``, every display interval; or a ``netweave.training.Monitor`` with its own interval.
            Their statistics and histograms are in ``ValuesSeen`` events and in the event files.
        restarts: How often the processes of ``devices`` are started again, from the last checkpoint, when one
            dies, >= 0.
        stop_signal: Name of a signal besides SIGTERM that says that the machine is taken away: the run
            finishes its update, writes a checkpoint and ends with the exit status 143.
        grace_s: Seconds that the processes of ``devices`` have for this, > 0; then they are killed.
        micro_batches: Parts of like size, >= 1, in which a batch passes through a net whose layers live on
            several workers: the ``location`` of layers says which, else the net is cut into stages of like
            cost. None where all workers compute at the same time.
        pipeline: Order of their passes: ``1f1b`` holds the activations of few micro-batches, ``gpipe`` those
            of all.
        log_placement: Begin the log with a line for each layer: which rank computes which part, and the bytes
            in and out.
        cluster: Worker groups and servers, instead of those of the Job: a ``netweave.Cluster``, or a file
            with fields of SINGA's ``ClusterProto``; ``devices`` must be as many as it has processes.
            ``"auto"`` for the fastest scheme of a plan that fits in the free memory, on processors of this
            machine.

    Raises:
        UsageError: A number is out of its range, or there is no such exchange.
    """

    function: ClassVar[str] = "train"

    data: Mapping[str, Mapping[str, Any]] | None = None
    resume: str | Path | bool = False
    weights: Sequence[str | Path] = ()
    device: str | None = None
    devices: str | None = None
    precision: str = "f32"
    seed: int | None = None
    threads: int | None = None
    trace: str | Path | None = None
    events: str | Path | None = None
    plot: str | Path | None = None
    keep: int | None = None
    checkpoint_every: float | str | None = None
    ledger: str | Path | None = None
    num_stages: int | None = None
    memory: str | int | None = None
    exchange: str = "overlapped"
    compression: str = "none"
    threshold: float | None = None
    batch: str | None = None
    sync_batch_norm: bool = True
    same_bits: int | None = None
    other_bits: bool = False
    slice_elements: int | None = None
    timeout_s: float | None = None
    monitor: Monitor | Sequence[str] | None = None
    restarts: int = 0
    stop_signal: str = "TERM"
    grace_s: float = 30.0
    micro_batches: int | None = None
    pipeline: str = PIPELINES[0]
    log_placement: bool = False
    cluster: Cluster | str | Path | None = None

    def __post_init__(self) -> None:
        for name, least in (
            ("threads", 1),
            ("keep", 1),
            ("num_stages", 1),
            ("restarts", 0),
            ("same_bits", 1),
            ("micro_batches", 1),
        ):
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"{name} is {value}, expected at least {least}")
        if self.stop_signal not in STOP_SIGNALS:
            raise UsageError(
                f"stop_signal is {self.stop_signal!r}, expected one of {', '.join(STOP_SIGNALS)}"
            )
        if self.pipeline not in PIPELINES:
            raise UsageError(f"pipeline is {self.pipeline!r}, expected {' or '.join(PIPELINES)}")
        if not self.grace_s > 0:
            raise UsageError(f"grace_s is {self.grace_s}, expected more than 0 seconds")
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise UsageError(f"timeout_s is {self.timeout_s}, expected more than 0 seconds")
        _ = self.checkpoint_every_s
        settings = self.exchange_settings
        if self.same_bits is not None and (settings.kind, settings.compression) != ("overlapped", "none"):
            raise UsageError(
                f"same_bits is for the exchange 'overlapped' without compression, not {settings.kind!r} with "
                f"{settings.compression!r}: they round by the number of ranks"
            )
        if self.same_bits is not None and (self.memory is not None or self.precision != "f32"):
            raise UsageError("same_bits does not go with memory or precision; leave them out")

    @property
    def checkpoint_every_s(self) -> float | None:
        """Seconds after which a checkpoint is due.

        Raises:
            UsageError: They are no time.
        """
        if self.checkpoint_every is None:
            return None
        match = re.fullmatch(r"(\d+(?:\.\d*)?)([smh]?)", str(self.checkpoint_every).strip())
        if match is None or not float(match[1]):
            raise UsageError(
                f"checkpoint_every is {self.checkpoint_every!r}, expected a time such as 60s, 10m or 2h"
            )
        return float(match[1]) * {"m": 60, "h": 3600}.get(match[2], 1)

    @property
    def exchange_settings(self) -> ExchangeSettings:
        """Settings of the gradient exchange.

        Raises:
            UsageError: A name is unknown, or they do not go together.
        """
        return ExchangeSettings(self.exchange, self.compression, self.threshold)
