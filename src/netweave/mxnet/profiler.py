"""``mx.profiler``: what is computed and how long, by torch's profiler; a browser's trace viewer opens it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from netweave.errors import UsageError


class _State:
    filename = "profile.json"
    running: Any = None


def set_config(**kwargs: Any) -> None:
    """Set where the trace is written: ``filename``; MXNet's other settings make no difference."""
    _State.filename = str(kwargs.get("filename", _State.filename))


def profiler_set_config(mode: str = "symbolic", filename: str = "profile.json") -> None:
    """Set where the trace is written; the name until 1.2."""
    set_config(filename=filename)


def set_state(state: str = "stop", profile_process: str = "worker") -> None:
    """Begin (``run``) or end (``stop``) profiling; the end writes the trace.

    Raises:
        UsageError: There is no such state, or the file cannot be written.
    """
    if state not in {"run", "stop"}:
        raise UsageError(f"state is {state!r}, expected 'run' or 'stop'")
    if state == "run" and _State.running is None:
        _State.running = torch.profiler.profile()
        _State.running.__enter__()
    elif state == "stop" and _State.running is not None:
        done, _State.running = _State.running, None
        done.__exit__(None, None, None)
        Path(_State.filename).parent.mkdir(parents=True, exist_ok=True)
        done.export_chrome_trace(_State.filename)


profiler_set_state = set_state


def pause(profile_process: str = "worker") -> None:
    """As MXNet has it; a whole run is traced here."""


resume = pause


def dump(finished: bool = True, profile_process: str = "worker") -> None:
    """Write the trace."""
    set_state("stop")


dump_profile = dump


def dumps(reset: bool = False) -> str:
    """Return a table of what took most time since ``run``; empty where nothing is traced."""
    if _State.running is None:
        return ""
    return str(_State.running.key_averages().table(row_limit=30))


def __getattr__(name: str) -> Any:
    from netweave.mxnet.base import missing

    raise missing("mx.profiler", name, ["set_config", "set_state", "dump", "dumps"])
