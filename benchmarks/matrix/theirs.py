"""Nets that a framework made, saved and ran itself: made where they miss, read, and held against it."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import netweave
from benchmarks.matrix.cells import ROOT
from benchmarks.matrix.nets import COLUMNS
from tests.oracles import golden, recipe

GOLDEN = ROOT / "tests" / "golden" / "matrix"
REPEATED = 1e-4
"""Largest difference between two runs of the same framework, relative to the rms."""


@dataclass(frozen=True, slots=True)
class Their:
    """A net of a framework's own.

    Attributes:
        net: Key of the net.
        format: Key of the format.
        folder: Where its files are.
        record: What the framework says of it; see ``tests/oracles/matrix/making``.
    """

    net: str
    format: str
    folder: Path
    record: dict[str, Any]

    @property
    def files(self) -> list[Path]:
        """The files to read: the net, then its weights."""
        names = COLUMNS[self.format].file
        return [self.folder / name for name in ([names] if names else self.record["files"])]

    @property
    def read(self) -> list[Path]:
        """All that its cells hang on."""
        return [*self.files, self.folder / "record.json"]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Sizes of all inputs."""
        drawn = {name: tuple(shape) for name, (shape, _) in self.record["inputs"].items()}
        return drawn | {name: tuple(shape) for name, shape in self.record.get("zeros", {}).items()}

    def load(self) -> netweave.Graph:
        """Read it."""
        name, *weights = map(str, self.files)
        if "entry" in self.record:
            name = f"{name}:{self.record['entry']}"
        knows_sizes = self.format in {"pytorch", "onnx", "keras"}  # and has names of its own for them
        return netweave.load(name, *weights, input_shapes=None if knows_sizes else self.shapes, trust=True)

    def inputs(self, graph: netweave.Graph) -> dict[str, np.ndarray]:
        """Return what the framework was given, by the graph's names."""
        given = {name: recipe.draw(name, tuple(s), kind) for name, (s, kind) in self.record["inputs"].items()}
        free = [name for name in given if name not in {value.name for value in graph.inputs}]
        found = {}
        for value in graph.inputs:
            name = value.name or ""
            array = given.get(name)
            if array is None and name in self.record.get("zeros", {}):
                array = np.zeros(self.record["zeros"][name])
            elif array is None and free:
                array = given[free.pop(0)]
            elif array is None:
                array = np.zeros([size if isinstance(size, int) else 1 for size in value.shape])
            found[name] = array.astype(value.dtype.numpy())
        return found

    def difference(self, found: dict[str, np.ndarray]) -> float:
        """Return the largest difference of outputs from those of the framework."""
        described = dict(self.record["outputs"])
        arrays = [found[name] for name in described] if set(described) <= set(found) else list(found.values())
        if len(arrays) != len(described):
            return float("inf")
        return max(golden.difference(a, b) for a, b in zip(arrays, described.values(), strict=True))


def made(net: str, format_: str, folder: Path, pythons: dict[str, str], more: list[str]) -> Their | None:
    """Return a net of a framework's own, made now if its files are not there; None if nobody makes it.

    Raises:
        ValueError: The framework computes something else than before.
    """
    column, kept = COLUMNS[format_], GOLDEN / f"{format_}.json"
    if not column.maker or net not in _known(format_, pythons):
        return None
    place = folder / column.maker[-1].removeprefix("with_") / net
    if not (place / "record.json").exists():
        script, *first = column.maker
        command = [pythons[column.python], "-W", "ignore", "-m", f"tests.oracles.matrix.{script}", *first]
        done = subprocess.run(
            [*command, str(place), net, *more], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ValueError(f"{net} was not made: {done.stderr.strip().splitlines()[-1]}")
    record = json.loads((place / "record.json").read_text())
    records = json.loads(kept.read_text()) if kept.exists() else {}
    if net not in records:
        golden.write_json(kept, dict(sorted((records | {net: record}).items())))
    elif not _same(record, records[net]):
        raise ValueError(
            f"{place}: {record['framework']} computes something else than {kept.name} keeps of it"
        )
    return Their(net, format_, place, records.get(net, record))


def check(their: Their) -> dict[str, Any]:
    """Read a net and hold its outputs against the framework's."""
    graph = their.load()
    error = their.difference(outputs(graph, their))
    ok = error < golden.TOLERANCE
    return {"ok": ok, "error": error, "said": "" if ok else "its outputs differ from the framework's"}


def outputs(graph: netweave.Graph, their: Their) -> dict[str, np.ndarray]:
    """Run a graph, and return the values that the record has; of a net that judges itself, what it judges."""
    judged = [node.inputs[0].name for node in graph.nodes if node.op_type == "SoftmaxWithLoss"]
    made = {value.name for node in graph.nodes for value in node.outputs}
    wanted = [name for name, _ in their.record["outputs"]]
    names = judged if judged and not set(wanted) <= made else wanted
    inner = [name for name in names if name in made - {value.name for value in graph.outputs}]
    found = netweave.run(graph, their.inputs(graph), taps=inner)
    return {name: found[name] for name in names} if set(names) <= set(found) else found


_NETS: dict[str, list[str]] = {}


def _known(format_: str, pythons: dict[str, str]) -> list[str]:
    """Return the nets that a maker has, as it lists them itself."""
    if format_ not in _NETS:
        column = COLUMNS[format_]
        script, *first = column.maker
        command = [pythons[column.python], "-W", "ignore", "-m", f"tests.oracles.matrix.{script}", *first]
        done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=True)
        _NETS[format_] = done.stdout.split()
    return _NETS[format_]


def _same(record: dict[str, Any], before: dict[str, Any]) -> bool:
    if {**record, "outputs": 0} != {**before, "outputs": 0} or len(record["outputs"]) != len(
        before["outputs"]
    ):
        return False
    for (_, ours), (_, theirs) in zip(record["outputs"], before["outputs"], strict=True):
        scale = theirs["rms"] or 1.0
        if ours["shape"] != theirs["shape"]:
            return False
        if any(abs(a - b) > REPEATED * scale for a, b in zip(ours["values"], theirs["values"], strict=True)):
            return False
    return True
