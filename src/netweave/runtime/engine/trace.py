"""A timeline of every task, in the format that chrome://tracing and Perfetto open."""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING, Any

from netweave.files.atomic import writing

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TextIO

    from netweave.runtime.engine.task import Task

FLUSH_EVENTS = 1024
"""So many events are kept in memory at most; a killed run loses no more than these."""


class Trace:
    """Writes a timeline to a file as tasks end: one row per thread, one box per task.

    The file is an array of events of the Trace Event Format, which need not be closed, so that the
    timeline of a killed run can be opened too.

    Args:
        path: The file; overwritten.

    Raises:
        WriteError: The file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._events: list[str] = []
        self._threads: dict[str, int] = {}
        self._process = os.getpid()
        with writing(path):
            self._file: TextIO = path.open("w", encoding="utf-8")
        self._file.write("[\n")
        self._emit({"ph": "M", "name": "process_name", "args": {"name": "netweave"}})

    def add_task(self, task: Task, ended_ns: int) -> None:
        """Note a task that has ended."""
        event = {
            "name": task.name,
            "cat": task.lane,
            "ts": task.started_ns / 1000,
            "args": {
                "order": task.order,
                "priority": task.priority,
                "blocked_us": (task.ready_ns - task.pushed_ns) / 1000,
                "queued_us": (task.started_ns - task.ready_ns) / 1000,
                "reads": [variable.name for variable in task.reads],
                "writes": [variable.name for variable in task.writes],
                **({"error": repr(task._error)} if task._error is not None else {}),
            },
        }
        with self._lock:
            event["tid"] = self._thread(task.thread)
            if task.deferred:  # may overlap with what its thread does next
                self._emit({**event, "ph": "b", "id": task.order})
                end = {"ph": "e", "id": task.order, "name": task.name, "cat": task.lane, "tid": event["tid"]}
                self._emit({**end, "ts": ended_ns / 1000})
            else:
                self._emit({**event, "ph": "X", "dur": (ended_ns - task.started_ns) / 1000})
            if len(self._events) >= FLUSH_EVENTS:
                self._flush()

    def close(self) -> None:
        """Write what is left and close the file; a second call does nothing."""
        with self._lock:
            if not self._file.closed:
                with writing(self.path), self._file:
                    self._flush(last=True)

    def _thread(self, name: str) -> int:
        number = self._threads.get(name)
        if number is None:
            number = self._threads[name] = len(self._threads) + 1
            self._emit({"ph": "M", "name": "thread_name", "tid": number, "args": {"name": name}})
        return number

    def _emit(self, event: dict[str, Any]) -> None:
        self._events.append(json.dumps({"pid": self._process, **event}))

    def _flush(self, *, last: bool = False) -> None:
        text = ",\n".join(self._events)
        self._events.clear()
        with writing(self.path):
            self._file.write(text + ("\n]\n" if last else ",\n"))
            self._file.flush()
