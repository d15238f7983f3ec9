"""Plant faults, let other programs say what they do, and count what ``netweave.compare`` says of them.

::

    python -m benchmarks faults --corpus CORPUS --oracle PYTHON
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import netweave
from benchmarks.faults import caffe_faults, darknet_faults, mxnet_faults, onnx_faults, torch_subjects
from benchmarks.faults.comparing import compare_all
from benchmarks.faults.halves import half_of
from benchmarks.faults.kept import Kept
from benchmarks.faults.score import Score
from benchmarks.record import Namespace, Record, option

if TYPE_CHECKING:
    from benchmarks.faults.model import Net, Subject, Wanted

ROOT = Path(__file__).parents[2]
Made = TypeVar("Made")


OPTIONS = (
    option("--corpus", type=Path, required=True),
    option("--oracle", required=True, help="a Python with OpenCV and MXNet"),
    option("--folder", default=Path("build/faults"), help="for nets and answers"),
    option("--half", choices=["seen", "unseen"], help="this half of the nets alone"),
    option("--jobs", default=1, help="so many nets at once"),
    option("--only", default="", help="nets whose name holds this"),
    option("--prepare", default=False, help="let the oracles answer, and compare nothing"),
)


def main(options: Namespace, record: Record) -> None:
    """Run what the command line asks for."""
    start = time.perf_counter()
    kept = Kept.of(options.folder / "scores", Path(netweave.__file__).parent)

    def wanted(name: str) -> bool:
        return options.half in {None, half_of(name)} and options.only in name

    oracle = options.oracle
    if options.prepare:
        everything = subjects(options.corpus, options.folder, oracle, wanted)
        for name in at_once(prepare, everything, options.folder / "nets", oracle, jobs=options.jobs):
            print(f"{name}: prepared, {time.perf_counter() - start:.0f} s", flush=True)
        return
    chosen = subjects(
        options.corpus, options.folder, oracle, lambda name: wanted(name) and kept.get(name) is None
    )
    for name, counts in at_once(one, chosen, options.folder / "nets", oracle, jobs=options.jobs):
        kept.put(name, counts)
        num, spent = len(counts.rows()), time.perf_counter() - start
        print(f"{name}: {num} comparisons, {counts.num_missed()} to look at, {spent:.0f} s", flush=True)
    results = Score()
    for name in filter(wanted, kept.names()):
        results.take(kept[name])
    report(results, time.perf_counter() - start)
    record.save(results.to_json() | {"state": kept.state})


def subjects(corpus: Path, folder: Path, oracle: str, wanted: Wanted) -> Iterator[Subject]:
    """Yield the nets that are wanted with their partners and faults, as files in memory."""
    zoo = folder / "zoo"
    if not zoo.exists():
        call([oracle, "-m", "benchmarks.faults.zoo", str(corpus.resolve()), str(zoo.resolve())])
    yield from caffe_faults.subjects(corpus, wanted)
    yield from mxnet_faults.subjects(corpus, zoo, wanted)
    yield from darknet_faults.subjects(wanted)
    yield from onnx_faults.subjects(wanted)
    yield from torch_subjects.subjects(corpus, zoo, folder / "exported", wanted)


def at_once(
    work: Callable[[Subject, Path, str], Made],
    chosen: Iterable[Subject],
    folder: Path,
    oracle: str,
    *,
    jobs: int,
) -> Iterator[Made]:
    """Yield what is made of each net, several nets at once; no more are held in memory than that."""
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        running: set[Future[Made]] = set()
        for subject in chosen:
            if len(running) == jobs:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
            running.add(pool.submit(work, subject, folder / subject.name, oracle))
        yield from (future.result() for future in running)


def prepare(subject: Subject, place: Path, oracle: str) -> str:
    """Write a net with all its forms and faults, let the oracles run them, and return its name."""
    for name, net in named(subject):
        write(net, place / name)
    answers(place, oracle)
    return subject.name


def one(subject: Subject, place: Path, oracle: str) -> tuple[str, Score]:
    """Prepare a net and compare."""
    results = Score()
    prepare(subject, place, oracle)
    compare_all(subject, place, results)
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


def answers(place: Path, oracle: str) -> None:
    """Let the oracles run all forms and faults of a net that they have not run yet."""
    for python, formats in ((sys.executable, ("onnx", "pytorch")), (oracle, ("caffe", "mxnet", "darknet"))):
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


def report(results: Score, seconds: float) -> None:
    """Print the counts."""
    whole = results.to_json()
    for title, table in (("", whole), ("without weights", whole["without_weights"])):
        for key in ("", *table["by"]):
            row = table["by"][key] if key else table
            cells = ", ".join(f"{n} {row[n]}" for n in row if isinstance(row[n], int) and row[n])
            print(f"{', '.join(filter(None, (title, key))) or 'all'}: {cells}")
    print(f"{seconds:.0f} s")
