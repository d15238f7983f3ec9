"""Nets that Netweave writes: the framework itself, in a process without Netweave, reads and runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import netweave
from benchmarks.matrix.cells import ROOT, Refused
from benchmarks.matrix.nets import COLUMNS
from netweave import api
from netweave.errors import NetweaveError
from tests.oracles import golden

if TYPE_CHECKING:
    from benchmarks.matrix.theirs import Their

SOURCES = ("mxnet", "pytorch", "caffe", "darknet", "keras", "chainer")
"""Formats that a net is written from, the first that has it; those that are channels first before others."""

READING = ROOT / "tests" / "oracles" / "matrix" / "reading.py"
SAME = 1e-5
"""Largest difference of written PyTorch code from the graph that it was written from, run by PyTorch
as well, relative to the rms; probabilities, whose rms may be that of one, are taken as they are."""

RUFF = ("ruff", "check", "--isolated", "--line-length", "110", "--extend-select", "E501")
"""Ruff's own rules, and lines as long as this project's."""

MOST_LINES = {"resnet50": 200}
"""Lines of PyTorch code that a net may take."""


def check(their: Their, format_: str, python: str) -> dict[str, Any]:
    """Write a net of a framework in another format, have it read back and run, and compare."""
    graph = api.to_inference(their.load())
    inputs = their.inputs(graph)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        column = COLUMNS[format_]
        try:
            written = api.save(graph, folder / f"{their.net.replace('-', '_')}{column.suffix}", to=column.to)
        except NetweaveError as error:
            raise Refused(error) from error
        names = written.inputs or {}
        np.savez(folder / "inputs.npz", **{names.get(name, name): array for name, array in inputs.items()})
        found = _run(folder, written, column.judge or "", python)
        facts = _facts(written.net, their.net) if format_ == "pytorch" else {}
    wanted = netweave.run(graph, inputs, backend="torch" if format_ == "pytorch" else "onnxruntime")
    by_name = found if set(found) == set(wanted) else dict(zip(wanted, found.values(), strict=True))
    from_graph = max(_error(by_name[name], array) for name, array in wanted.items())
    described = {name for name, _ in their.record["outputs"]}
    is_inner = described <= {value.name for node in graph.nodes for value in node.outputs} - set(wanted)
    # of a detector the record has what its heads read; what they make of it is held against the graph
    error = from_graph if is_inner else their.difference(by_name)
    ok = error < golden.TOLERANCE and all(facts.values()) and (format_ != "pytorch" or from_graph < SAME)
    wrong = [name for name, value in facts.items() if not value]
    said = (
        "; ".join(wrong)
        if wrong
        else ""
        if ok
        else f"{from_graph:.1e} from the graph that it was written from"
    )
    return {"ok": ok, "error": error, "said": said, "facts": facts | {"from_graph": from_graph}}


def _run(folder: Path, written: Any, judge: str, python: str) -> dict[str, np.ndarray]:
    """Return the outputs, by their names or in their order."""
    files = {"net": str(written.net), "weights": str(written.weights or ""), "entry": written.entry or ""}
    (folder / "written.json").write_text(json.dumps(files))
    alone = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [python, "-W", "ignore", str(READING), judge, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=alone, check=False)
    if done.returncode:
        raise ValueError(f"{judge} does not read it: {done.stderr.strip().splitlines()[-1]}")
    made = np.load(folder / "outputs.npz")
    return {name: made[name] for name in made.files}


def _facts(file: Path, net: str) -> dict[str, Any]:
    """Return what is to be said of written code: whether ruff accepts it, and its lines."""
    ruff = subprocess.run(
        [sys.executable, "-m", *RUFF, str(file)], capture_output=True, text=True, check=False
    )
    lines = len(file.read_text().splitlines())
    return {
        "ruff accepts it": ruff.returncode == 0,
        "lines": lines if lines < MOST_LINES.get(net, sys.maxsize) else 0,
    }


def _error(array: np.ndarray, wanted: np.ndarray) -> float:
    if array.shape != wanted.shape:
        return float("inf")
    rms = float(np.sqrt(np.mean(np.square(wanted, dtype=np.float64))))
    is_probability = wanted.ndim > 1 and wanted.min() >= 0 and np.allclose(wanted.sum(axis=1), 1, atol=1e-4)
    return float(np.abs(array.astype(np.float64) - wanted).max()) / (1.0 if is_probability else rms or 1.0)


def source(net: str, format_: str, found: Callable[[str, str], Their | None]) -> Their | None:
    """Return what a net is written from: the first other format whose framework makes it."""
    others = (found(net, other) for other in SOURCES if other != format_)
    return next((their for their in others if their is not None), None)
