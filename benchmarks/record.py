"""Options of a benchmark, and the one form in which results are kept.

A file of results begins with ``about``: the benchmark, the command, the commit, the machine and the versions
of what computed. The figures stand beside it, in a form of the benchmark's own.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

__all__ = ["Namespace", "Option", "Record", "commit", "option", "read_results"]

ROOT = Path(__file__).parents[1]

LIBRARIES = ("netweave", "numpy", "torch", "onnx", "onnxruntime", "openvino", "cv2", "keras", "tensorflow")
"""Packages whose version a result names, if the benchmark has imported them."""


@dataclass(frozen=True, slots=True)
class Option:
    """An argument of a benchmark's command line: its names, and settings as ``add_argument`` takes them."""

    names: tuple[str, ...]
    settings: dict[str, Any]


def option(*names: str, **settings: Any) -> Option:
    """Return an option, with the type of its default; one whose default is ``False`` is a switch.

    >>> option("--rounds", default=5).settings["type"]
    <class 'int'>
    """
    default = settings.get("default")
    if default is False:
        settings = {**settings, "action": "store_true"}
    elif isinstance(default, int | float | Path):
        settings = {"type": type(default), **settings}
    return Option(names, settings)


@dataclass(slots=True)
class Record:
    """The results of one run of a benchmark, and the file that they go to.

    Attributes:
        name: Name of the benchmark.
        command: The command, without folders of this machine.
        path: The file; None where nobody asked for one.
        results: The figures; at first those that the file holds already.
    """

    name: str
    command: str
    path: Path | None = None
    results: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def open(cls, name: str, words: Sequence[str], path: Path | None) -> Record:
        """Return the record of a command, with the results that its file holds already."""
        results = read_results(path) if path is not None and path.exists() else {}
        return cls(name, " ".join(["python -m benchmarks", name, *without_places(words)]), path, results)

    def save(self, results: dict[str, Any] | None = None) -> None:
        """Write the figures, if there is a file: these, or those that it holds."""
        self.results = self.results if results is None else results
        if self.path is None:
            return
        about = {
            "benchmark": self.name,
            "command": self.command,
            "commit": commit(),
            "machine": machine(),
            "versions": versions(),
        }
        draft = self.path.with_suffix(".new")
        draft.write_text(json.dumps({"about": about, **self.results}, indent=1) + "\n")
        draft.replace(self.path)  # a run that is killed leaves a whole file


def read_results(path: Path) -> dict[str, Any]:
    """Return the figures of a file of results."""
    content: dict[str, Any] = json.loads(path.read_text())
    content.pop("about", None)
    return content


def without_places(words: Sequence[str]) -> list[str]:
    """Return arguments, with folders and programs of this machine replaced by what they are.

    >>> without_places(["--corpus", "/data/nets", "--json=/tmp/x.json", "/elsewhere", "--rounds", "3"])
    ['--corpus', 'CORPUS', '--json=JSON', 'FOLDER', '--rounds', '3']
    """
    found = []
    for before, word in pairwise(["", *words]):
        name, is_joined, value = word.partition("=")
        if is_joined and Path(value).is_absolute():
            found.append(f"{name}={name.lstrip('-').upper()}")
        elif Path(word).is_absolute():
            is_value = before.startswith("--") and "=" not in before
            found.append(before.lstrip("-").upper() if is_value else "FOLDER")
        else:
            found.append(shlex.quote(word))
    return found


def commit() -> str:
    """Return the commit of the code that computed; it ends in ``-dirty`` where files differ from it."""
    package = sys.modules.get("netweave")
    folder = Path(package.__file__).parent if package is not None and package.__file__ else ROOT
    command = ["git", "-C", str(folder), "describe", "--always", "--abbrev=10", "--dirty", "--exclude=*"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "not in a repository"


def machine() -> dict[str, Any]:
    """Return what the figures were measured on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"processor": processor(), "cores": cores, "system": f"{platform.system()} {platform.machine()}"}


def processor() -> str:
    """Return the name of the processor, with what it has for bfloat16, as Linux says it."""
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return platform.machine()
    rows = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
    fields = {name.strip(): value.strip() for name, value in rows.items()}
    extensions = [flag for flag in fields.get("flags", "").split() if flag in {"avx512_bf16", "amx_bf16"}]
    family = f"family {fields.get('cpu family', '?')} model {fields.get('model', '?')}"
    return f"{fields.get('model name', platform.machine())}, {family}, {' '.join(extensions) or 'no bf16'}"


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that this process has imported."""
    loaded = {name: getattr(sys.modules.get(name), "__version__", "") for name in LIBRARIES}
    return {"python": platform.python_version()} | {name: str(text) for name, text in loaded.items() if text}
