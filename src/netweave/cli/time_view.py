"""Times of layers, on a terminal and as JSON values."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from netweave.cli.console import LINE_BELOW_HEAD

if TYPE_CHECKING:
    from rich.console import Console

    from netweave.api.timing import InferenceTime, NetTime


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
