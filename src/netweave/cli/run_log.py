"""The lines of the log of a run, in the form of the framework that its Job was written for."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from netweave.formats.dialect import dialect_of
from netweave.training import Evaluated, Event, NormsSeen, Note, Saved, Shown, Stopped, ValuesSeen

Outputs = Mapping[str, tuple[float, ...]]

_COPY = re.compile(r"\d+#")
"""What the name of an unrolled copy of a layer begins with."""

_HEAD_NUMBERS = ("Avg IOU", "Class", "Obj", "No Obj", ".5R", ".75R")
"""What Darknet prints of a head; a count follows."""

_PHASES = {"validate": "Validation"}
"""SINGA's names of the phases, where they are not ours with a capital letter."""


class RunLog(Protocol):
    """Says in lines what has happened."""

    def opening(self, number: int) -> Iterator[str]:
        """Yield the lines before all others, with the number of the job in the register."""

    def lines(self, event: Event) -> Iterator[str]:
        """Yield the lines for an event; none for most updates."""


class CaffeLog:
    """Lines as the ``caffe`` command has them, without the head that glog puts before them."""

    def opening(self, number: int) -> Iterator[str]:
        """Yield the lines before all others: none."""
        yield from ()

    def lines(self, event: Event) -> Iterator[str]:
        """Yield the lines for an event."""
        if isinstance(event, Shown):
            yield _progress(event)
            yield from _indented(event.outputs, event.weights)
        elif isinstance(event, Evaluated):
            yield f"Iteration {event.iteration}, testing ({event.phase})"
            yield from _indented(event.outputs, event.weights)
        elif isinstance(event, Saved):
            yield f"Iteration {event.iteration}, writing {', '.join(event.files)}"
        else:
            yield from _common_lines(event)


class SingaLog:
    """Lines as SINGA's documents quote them, head and all, so that what reads its logs reads these.

    ``E0817 07:15:47.341076 34073 trainer.cc:373] Train step-0, loss : 2.357269, accuracy : 0.099000``: glog's
    letter of an error is SINGA's own. Copies of an unrolled layer are summed (``BPTTWorker::Display``).
    """

    def opening(self, number: int) -> Iterator[str]:
        """Yield the lines before all others, as ``singa-run.sh``."""
        yield f"Unique JOB_ID is {number}"

    def lines(self, event: Event) -> Iterator[str]:
        """Yield the lines for an event."""
        head = f"E{datetime.now():%m%d %H:%M:%S.%f} {os.getpid()} netweave] "
        if isinstance(event, Shown):
            yield f"{head}Train step-{event.iteration}{_metrics(event.outputs)}"
        elif isinstance(event, Evaluated):
            phase = _PHASES.get(event.phase, event.phase.capitalize())
            yield f"{head}{phase} step-{event.iteration}{_metrics(event.outputs)}"
        elif isinstance(event, Saved):
            for file in event.files:
                yield f"{head}checkpoint to {file}"
        elif isinstance(event, NormsSeen):
            yield from (f"{head}{line}" for line in _norm_lines(event))
        else:
            yield from (f"{head}{line}" for line in _common_lines(event))


class DarknetLog(CaffeLog):
    """Lines as ``train_detector`` prints them: a line for each head, then the update, counted from 1."""

    def lines(self, event: Event) -> Iterator[str]:
        """Yield the lines for an event."""
        if not isinstance(event, Shown):
            yield from super().lines(event)
            return
        for name, values in event.outputs.items():
            layer, _, part = name.rpartition("/")
            if part == "statistics":
                yield f"Region {layer.rpartition('_')[2]} {_head_line(values)}"
        losses = (weight * sum(event.outputs[name]) for name, weight in event.weights.items())
        words = [f"{event.iteration + 1}: {sum(losses):.6f}", f"{event.loss:.6f} avg"]
        if event.rate is not None:
            words.append(f"{event.rate:.6g} rate")
        if event.images_per_s is not None:
            words.append(f"{rate_text(event.images_per_s)} images/s")
        yield ", ".join(words)


_LOGS: dict[str, type[RunLog]] = {"iteration": CaffeLog, "step": SingaLog, "update": DarknetLog}


def log_of(format_name: str) -> RunLog:
    """Return the log in the form of a framework, by the name of its format."""
    return _LOGS[dialect_of(format_name).log]()


def output_lines(outputs: Outputs, weights: Mapping[str, float]) -> Iterator[str]:
    """Yield outputs as Caffe shows them, an element on a line; what is a loss first, what is not last."""
    for name in sorted(outputs, key=lambda name: name not in weights):
        for value in outputs[name]:
            weight = weights.get(name)
            weighed = f" (* {weight:g} = {weight * value:.6g} loss)" if weight else ""
            yield f"{name} = {value:.6g}{weighed}"


def _head_line(values: Sequence[float]) -> str:
    *means, count = values
    shown = ", ".join(f"{name}: {value:.6f}" for name, value in zip(_HEAD_NUMBERS, means, strict=True))
    return f"{shown}, count: {count:.0f}"


def _common_lines(event: Event) -> Iterator[str]:
    if isinstance(event, Note):
        yield event.text
    elif isinstance(event, Stopped):
        yield f"Iteration {event.iteration}, stopped; {_resumption(event)}"
    elif isinstance(event, ValuesSeen):
        for name, seen in event.values.items():
            yield f"Iteration {event.iteration}, {name}: {seen}"


def _resumption(event: Stopped) -> str:
    if event.saved_at is None:
        return "no checkpoint was written"
    place = "here" if event.saved_at == event.iteration else f"iteration {event.saved_at}"
    return f"--resume goes on from {place}"


def _norm_lines(event: NormsSeen) -> Iterator[str]:
    """Yield norms as SINGA 0.1 writes them (``Layer::DebugString``): of forward, then of backward."""
    for name, norms in event.layers.items():
        yield f"Layer {name:>10} data norm1 {norms.value:13.9f}"
    numbers = {name: number for number, name in enumerate(event.parameters)}
    for layer, norms in reversed(list(event.layers.items())):
        if norms.gradient is not None:
            yield f"Layer {layer:>10} grad norm1 {norms.gradient:13.9f}"
        for name, own in event.parameters.items():
            if own.layer == layer:
                gradient = 0.0 if own.gradient is None else own.gradient
                yield (
                    f"param id {numbers[name]:2d}, name {name:>10}, value norm1 {own.value:13.9f}, "
                    f"grad norm1 {gradient:13.9f}"
                )


def rate_text(rate: float) -> str:
    """Return a number of records per second; slow nets do less than one.

    >>> rate_text(1234.5), rate_text(3.14), rate_text(0.0456)
    ('1,234', '3.1', '0.046')
    """
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def _indented(outputs: Outputs, weights: Mapping[str, float]) -> Iterator[str]:
    return (f"    {line}" for line in output_lines(outputs, weights))


def _progress(event: Shown) -> str:
    words = [f"Iteration {event.iteration}, loss = {event.loss:.6g}"]
    if event.rate is not None:
        words.append(f"lr = {event.rate:.6g}")
    if event.images_per_s is not None:
        words.append(f"{rate_text(event.images_per_s)} images/s")
    return ", ".join(words)


def _metrics(outputs: Outputs) -> str:
    """Return numbers by name, the metrics of a layer under its own: ``loss/accuracy`` is ``accuracy``."""
    sums: dict[str, float] = {}
    for name, values in outputs.items():
        if len(values) == 1:  # SINGA has no word for what is not one number for a batch
            whole = _COPY.sub("", name, count=1)
            sums[whole] = sums.get(whole, 0.0) + values[0]
    short = {name: name.rpartition("/")[2] for name in sums}
    unique = len(set(short.values())) == len(short)
    return "".join(f", {short[name] if unique else name} : {value:.6f}" for name, value in sums.items())
