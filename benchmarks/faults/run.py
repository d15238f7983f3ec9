"""Plant faults, let other programs say what they do, and count what ``netweave.compare`` says of them.

::

    python -m benchmarks.faults.run --corpus CORPUS --oracle PYTHON --tensorflow PYTHON
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import platform
import subprocess
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import netweave
from benchmarks.faults import (
    caffe_faults,
    chainer_faults,
    darknet_faults,
    keras_faults,
    mxnet_faults,
    onnx_faults,
    tensorflow_faults,
    torch_nets,
    torch_subjects,
)
from benchmarks.faults.halves import half_of
from benchmarks.faults.kept import Kept
from benchmarks.faults.score import EFFECT, Row, Score, is_missed, score
from netweave.errors import NetweaveError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from benchmarks.faults.model import Fault, Net, Subject, Wanted

ROOT = Path(__file__).parents[2]

KEEP_SIZES = frozenset({"onnx", "keras", "tensorflow", "darknet"})
"""Formats whose files say how large the input is."""


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description="Count what netweave compare says of planted faults.")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--oracle", required=True, help="a Python with OpenCV, MXNet and Chainer")
    parser.add_argument("--tensorflow", required=True, help="a Python with TensorFlow 2.21")
    parser.add_argument("--folder", type=Path, default=Path("build/faults"), help="for nets and answers")
    parser.add_argument("--half", choices=["seen", "unseen"], help="this half of the nets alone")
    parser.add_argument("--jobs", type=int, default=1, help="so many nets at once")
    parser.add_argument("--only", default="", help="nets whose name holds this")
    parser.add_argument("--result", type=Path, default=Path(__file__).with_name("result.json"))
    asked = parser.parse_args()
    start = time.perf_counter()
    kept = Kept.of(asked.folder / "scores")

    def wanted(name: str) -> bool:
        return asked.half in {None, half_of(name)} and asked.only in name

    oracles = Oracles(asked.oracle, asked.tensorflow)
    chosen = subjects(
        asked.corpus, asked.folder, oracles, lambda name: wanted(name) and kept.get(name) is None
    )
    for name, counts in at_once(chosen, asked.folder / "nets", oracles, jobs=asked.jobs):
        kept.put(name, counts)
    results = Score()
    for name in filter(wanted, kept.names()):
        results.take(kept[name])
    report(results, time.perf_counter() - start)
    written = results.to_json() | {"machine": f"{os.cpu_count()} cores, {platform.machine()}"}
    asked.result.write_text(json.dumps(written, indent=1) + "\n")


@dataclass(frozen=True)
class Oracles:
    """The interpreters that have other people's programs.

    Attributes:
        first: The one with OpenCV, MXNet and Chainer.
        tensorflow: The one with TensorFlow.
    """

    first: str
    tensorflow: str

    def formats(self) -> dict[str, tuple[str, ...]]:
        """Return the formats that each interpreter runs."""
        return {
            sys.executable: ("onnx", "pytorch"),
            self.first: ("caffe", "mxnet", "darknet", "chainer"),
            self.tensorflow: ("keras", "tensorflow"),
        }


def subjects(corpus: Path, folder: Path, oracles: Oracles, wanted: Wanted) -> Iterator[Subject]:
    """Yield the nets that are wanted with their partners and faults, as files in memory."""
    zoo, keras, frozen, chainer = (folder / name for name in ("zoo", "keras", "frozen", "chainer"))
    for python, script, *places in (
        (oracles.first, "zoo", corpus, zoo),
        (oracles.first, "chainer_zoo", chainer),
        (oracles.tensorflow, "keras_zoo", keras),
        (oracles.tensorflow, "tensorflow_zoo", frozen),
    ):
        if not places[-1].exists():
            call([python, "-m", f"benchmarks.faults.{script}", *(str(place.resolve()) for place in places)])
    yield from caffe_faults.subjects(corpus, wanted)
    yield from mxnet_faults.subjects(corpus, zoo, wanted)
    yield from darknet_faults.subjects(wanted)
    yield from keras_faults.subjects(keras, wanted)
    yield from tensorflow_faults.subjects(keras, frozen, wanted)
    yield from chainer_faults.subjects(chainer, wanted)
    yield from onnx_faults.subjects(wanted)
    yield from torch_subjects.subjects(corpus, zoo, folder / "exported", wanted)


def at_once(
    chosen: Iterable[Subject], folder: Path, oracles: Oracles, *, jobs: int
) -> Iterator[tuple[str, Score]]:
    """Yield the counts of each net, several nets at once; no more are held in memory than that."""
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        running: set[Future[tuple[str, Score]]] = set()
        for subject in chosen:
            if len(running) == jobs:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
            running.add(pool.submit(one, subject, folder / subject.name, oracles))
        yield from (future.result() for future in running)


def one(subject: Subject, place: Path, oracles: Oracles) -> tuple[str, Score]:
    """Write a net with all its forms and faults, let the oracles run them, and compare."""
    results = Score()
    for name, net in named(subject):
        write(net, place / name)
    answers(place, oracles)
    compare_all(subject, place, results)
    print(f"{subject.name}: done", flush=True)
    return subject.name, results


def named(subject: Subject) -> Iterable[tuple[str, Net]]:
    """Yield every net of a subject with the name of its folder."""
    yield "net", subject.net
    yield from subject.partners.items()
    for number, fault in enumerate(subject.faults):
        yield f"fault{number}", fault.net


def write(net: Net, folder: Path) -> None:
    """Write a net and its job; an answer to the same net stays."""
    same = all(
        (folder / name).exists() and (folder / name).read_bytes() == c for name, c in net.files.items()
    )
    if same and (folder / "job.json").exists():
        return
    for name in ("outputs.npz", "error.txt"):
        (folder / name).unlink(missing_ok=True)
    net.write(folder)
    job = {"format": net.format, "files": list(net.files), "inputs": net.inputs}
    (folder / "job.json").write_text(json.dumps(job))


def answers(place: Path, oracles: Oracles) -> None:
    """Let the oracles run all forms and faults of a net that they have not run yet."""
    for python, formats in oracles.formats().items():
        if _waiting(place, formats):
            call([python, "-m", "benchmarks.faults.oracle", str(place.resolve()), *formats])


def _waiting(place: Path, formats: Sequence[str]) -> bool:
    """Whether a net of some formats in a folder has no answer yet."""
    return any(
        json.loads(job.read_text())["format"] in formats
        and not any((job.parent / name).exists() for name in ("outputs.npz", "error.txt"))
        for job in place.glob("*/job.json")
    )


def call(command: list[str]) -> None:
    """Run a program from the repository's root."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stderr=subprocess.DEVNULL)


def effect(before: Path, after: Path) -> float | None:
    """Return the largest change of an output by the oracle; None if it refuses a net."""
    if not (before / "outputs.npz").exists() or not (after / "outputs.npz").exists():
        return None
    with np.load(before / "outputs.npz") as x, np.load(after / "outputs.npz") as y:
        if len(x) != len(y):
            return float("inf")
        return max(change(x[name], y[name]) for name in x)


def change(a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest change of a sample relative to its rms."""
    if a.shape != b.shape:
        return float("inf")
    a, b = (np.clip(x.reshape(len(x), -1).astype(np.float64), -1e30, 1e30) for x in (a, b))
    rms = np.sqrt((a**2).mean(axis=1))
    return float((np.abs(a - b).max(axis=1) / np.maximum(rms, 1e-30)).max())


def compare_all(subject: Subject, place: Path, results: Score) -> None:
    """Compare a subject's faults with the net and with one other form in turn, and its forms in pairs."""
    loaded = {"": load(place / "net", subject.net)}
    loaded |= {name: load(place / name, net) for name, net in subject.partners.items()}
    for first, second in itertools.permutations(loaded, 2):
        found = netweave.compare(loaded[first], loaded[second])
        results.equal(subject.name, alarm=not found.equal)
        if not found.equal:
            print(f"FALSE ALARM {subject.name}: {first or 'net'} and {second or 'net'}: {found.sentence}")
    turns = itertools.cycle(subject.partners)
    for number, fault in enumerate(subject.faults):
        moved = effect(place / "net", place / f"fault{number}")
        if moved is None:
            continue
        results.planted(subject.name, fault.kind, effective=moved > EFFECT)
        for partner in ["", next(turns)] if subject.partners else [""]:
            row = Row(subject.name, partner, fault.kind, fault.layer, moved, fault.in_table)
            results.compared(judged(row, fault, subject, loaded[partner], place / f"fault{number}"))


def judged(row: Row, fault: Fault, subject: Subject, a: netweave.Graph, place: Path) -> Row:
    """Compare with one faulty net, and print what is missed."""
    try:
        found = netweave.compare(a, load(place, fault.net))
    except NetweaveError as error:
        row.said = f"{type(error).__name__}: {error}"
    else:
        row = score(row, fault, subject.names.get(row.partner, {}), found)
    row.said = row.said.replace(f"{place.parent}/", "")
    if is_missed(row):
        flags = "".join(
            letter if getattr(row, name) else "-"
            for letter, name in zip(
                "EFLXW", ("effective", "found", "located", "explained", "wrong"), strict=True
            )
        )
        print(f"{flags} {row.net} [{row.partner}] {place.name} {row.kind} at {row.layer}: {row.said[:400]}")
    return row


def load(place: Path, net: Net) -> netweave.Graph:
    """Load a net by its files; a PyTorch one as a module in memory, since that starts no process."""
    if net.format == "pytorch":
        sizes = {name: (2, *shape) for name, shape in net.inputs.items()}
        return netweave.load(torch_nets.module(place), input_shapes=sizes)
    files = list(net.files)
    own = net.format in KEEP_SIZES
    shapes = {} if own else {name: (1, *shape) for name, shape in net.inputs.items()}
    weights = place / files[1] if len(files) > 1 else None
    return netweave.load(place / files[0], weights, input_shapes=shapes, trust=net.format == "chainer")


def report(results: Score, seconds: float) -> None:
    """Print the counts."""
    table = results.to_json()
    for key in ("", *table["by"]):
        row = table["by"][key] if key else table
        cells = ", ".join(f"{name} {row[name]}" for name in row if isinstance(row[name], int) and row[name])
        print(f"{key or 'all'}: {cells}")
    print(f"{seconds:.0f} s")


if __name__ == "__main__":
    main()
