"""What Caffe, MXNet and Keras themselves compute of the files that Netweave writes, kept small.

    cd REPOSITORY; python -m tests.formats.framework_runs FRAMEWORK PYTHON

runs every net of the framework's writer by PYTHON, an interpreter of the oracles' environment, and stores in
``tests/golden/written/FRAMEWORK.json`` what it computed and which files it read. A test writes the net again
and asserts that the files are those the framework ran, and that our runtime computes of the graph what the
framework did of the file. Reading the file with our own reader would not do: a mistake that reader and writer
share is invisible to it.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import netweave
from tests.oracles import golden

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from netweave.graph import Graph

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "written"
VALUES = 23
"""So many elements of each output are kept, beside shape, mean and rms; a prime, lest all be of a column."""

TOLERANCE = 3e-5
"""Of the rms, between two programs that compute in float32."""


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework that nets are written for.

    Attributes:
        file: The file of a net.
        modules: Test modules whose ``framework_cases`` gives its nets.
        settings: How ``netweave.save`` is called.
    """

    file: str
    modules: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)


FRAMEWORKS = {
    "caffe": Framework("written.prototxt", ("caffe.test_writer", "caffe.test_writer_detection")),
    "mxnet": Framework("written-symbol.json", ("mxnet.test_writer", "mxnet.test_writer_detection")),
    "keras": Framework("written.py", ("keras.test_source",), {"to": "keras"}),
}


@dataclass(frozen=True, slots=True)
class Case:
    """A net to write.

    Attributes:
        name: What it is about.
        graph: The net.
        inputs: What it is run on.
        random_weights: Whether it has none of its own.
        has_rows: Whether its output is rows of detections, whose order the framework leaves open.
    """

    name: str
    graph: Graph
    inputs: Mapping[str, np.ndarray]
    random_weights: bool = False
    has_rows: bool = False

    def write(self, framework: str, folder: Path) -> None:
        """Write the net, and its inputs beside it as the oracle takes them."""
        target = FRAMEWORKS[framework]
        settings = {**target.settings, "random_weights": self.random_weights}
        netweave.save(self.graph, folder / target.file, **settings)

    def outputs(self) -> list[np.ndarray]:
        """Return what our runtime computes of the graph, in the order of its outputs."""
        computed = netweave.run(self.graph, dict(self.inputs))
        return [self.ordered(computed[value.name]) for value in self.graph.outputs]

    def ordered(self, array: np.ndarray) -> np.ndarray:
        """Return an output in an order that does not depend on the program."""
        if not self.has_rows:
            return array
        rows = array.reshape(-1, array.shape[-1])
        return rows[np.lexsort((-rows[:, 2], rows[:, 1]))]


def check(framework: str, case: Case, folder: Path) -> None:
    """Assert that a net is written as the framework ran it, and computes what it computed there."""
    expected = kept(framework)[case.name]
    case.write(framework, folder)
    assert digests(folder) == expected["files"], (
        f"{case.name!r} is not written as {framework} ran it: if the change is meant, run "
        f"python -m tests.formats.framework_runs {framework} PYTHON"
    )
    outputs = case.outputs()
    assert len(outputs) == len(expected["outputs"])
    for array, described in zip(outputs, expected["outputs"], strict=True):
        assert golden.difference(array, described) < TOLERANCE


@cache
def kept(framework: str) -> dict[str, Any]:
    """Return what is kept of a framework: the files and outputs of every net, by name."""
    content: dict[str, Any] = json.loads((GOLDEN / f"{framework}.json").read_text())
    return content


def digests(folder: Path) -> dict[str, str]:
    """Return a digest of each written file; of an archive its arrays count alone, since it holds the time."""
    files = sorted(path for path in folder.glob("written*") if path.suffix != ".sha256")
    return {path.name.removeprefix("written"): _digest(path) for path in files}


def _digest(path: Path) -> str:
    content = hashlib.sha256()
    if path.suffix == ".npz":
        for name, array in sorted(np.load(path).items()):
            content.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    else:
        content.update(path.read_bytes())
    return content.hexdigest()[:16]


def cases(framework: str, folder: Path) -> Iterator[Case]:
    """Give all nets that are written for a framework."""
    for module in FRAMEWORKS[framework].modules:
        yield from importlib.import_module(f"tests.formats.{module}").framework_cases(folder)


def record(framework: str, python: str) -> dict[str, Any]:
    """Return what a framework computes of every net, by name.

    Raises:
        AssertionError: It computes something else than our runtime does.
    """
    with tempfile.TemporaryDirectory() as scratch:
        sources, written = Path(scratch) / "sources", Path(scratch) / "written"
        sources.mkdir()
        nets = {f"{number:03}": case for number, case in enumerate(cases(framework, sources))}
        for number, case in nets.items():
            (written / number).mkdir(parents=True)
            case.write(framework, written / number)
            np.savez(written / number / "inputs.npz", **case.inputs)
        files = {number: digests(written / number) for number in nets}
        command = [python, "-m", "tests.oracles.written", framework, str(written)]
        subprocess.run(command, check=True, cwd=ROOT, timeout=600)
        return {
            case.name: {
                "files": files[number],
                "outputs": [
                    golden.describe(array, VALUES)
                    for array in _agreed(case, dict(np.load(written / number / "y.npz")))
                ],
            }
            for number, case in nets.items()
        }


def _agreed(case: Case, given: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
    """Return the framework's outputs in the order of the graph's; our runtime agrees with every element."""
    names = [value.name for value in case.graph.outputs]
    theirs = [case.ordered(given[name if name in given else str(i)]) for i, name in enumerate(names)]
    for array, ours in zip(theirs, case.outputs(), strict=True):
        scale = float(np.sqrt(np.mean(np.square(ours, dtype=np.float64))))
        np.testing.assert_allclose(array, ours, atol=2e-5 * scale, rtol=0, err_msg=case.name)
    return theirs


if __name__ == "__main__":
    golden.write_json(GOLDEN / f"{sys.argv[1]}.json", record(sys.argv[1], sys.argv[2]))
