"""Compares random nets with equal re-writings of theirs, and counts false alarms.

python -m benchmarks fooling.rewrites --nets 1250 --first-seed 2000000 --python PYTHON --folder FOLDER
"""

from __future__ import annotations

import subprocess
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime as ort

import netweave
from benchmarks.fooling import oracle
from benchmarks.fooling.bases import real_nets
from benchmarks.fooling.forms import FORMS, form
from benchmarks.fooling.programs import ROWS, draw_program
from benchmarks.record import Namespace, Record, option
from netweave.errors import NetweaveError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

TOOLS = ("onnxslim", "onnxoptimizer")


def renamed(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """Return a net with its inner values renamed and its nodes in another topological order."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    if any(attribute.HasField("g") for node in copy.graph.node for attribute in node.attribute):
        return copy  # an inner graph reads outer values by name
    fixed = {value.name for value in (*copy.graph.input, *copy.graph.output)} | {""}
    new: dict[str, str] = {}

    def name_of(name: str) -> str:
        return name if name in fixed else new.setdefault(name, f"r{len(new)}")

    for tensor in copy.graph.initializer:
        tensor.name = name_of(tensor.name)
    nodes = list(copy.graph.node)
    for node in nodes:
        node.input[:] = map(name_of, node.input)
        node.output[:] = map(name_of, node.output)
    known = {value.name for value in copy.graph.input} | {t.name for t in copy.graph.initializer} | {""}
    generator, order = np.random.default_rng(seed), []
    while nodes:
        ready = [node for node in nodes if known.issuperset(node.input)]
        chosen = ready[int(generator.integers(len(ready)))]
        nodes.remove(chosen)
        order.append(chosen)
        known |= set(chosen.output)
    del copy.graph.node[:]
    copy.graph.node.extend(order)
    return copy


def optimised(file: Path, target: Path) -> None:
    """Write a net as ONNX Runtime rewrites it, with standard operators alone."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(target)
    options.log_severity_level = 4
    ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def rewritings(
    folder: Path, forms: Sequence[str], rows: Mapping[str, int]
) -> Iterator[tuple[str, Path, Any]]:
    """Yield each net with each of its re-writings that the oracle takes for equal, and how it was made."""
    for number, file in enumerate(sorted(folder.glob("?????.onnx"))):
        model = onnx.load(file)
        for way in ("renamed", "runtime", *TOOLS):
            other = file.with_suffix(f".{way}")
            if not other.exists():
                continue
            written = onnx.load(other, format="protobuf")
            if oracle.differ(model, written, seed=number, rows=rows[file.name]) is not False:
                yield f"{way}, not equal by the oracle", file, None
                continue
            copy = folder / "other.onnx"
            onnx.save(written, copy)
            yield way, file, copy
        for way in forms:
            copy = folder / "other.onnx"
            onnx.save(model, copy)
            other_form = form(way, copy)
            if other_form is not None:
                yield way, file, other_form


def write_nets(folder: Path, first_seed: int, count: int, corpus: Path | None) -> dict[str, int]:
    """Write random and real nets with our own re-writings; return the rows of the tables by file name."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = {}
    nets = [(kind, model) for kind, model in real_nets(corpus)] if corpus is not None else []
    for seed in range(first_seed, first_seed + count):
        model, kind = draw_program(seed)
        nets.append((kind, model))
    for number, (kind, model) in enumerate(nets):
        file = folder / f"{number:05}.onnx"
        onnx.save(model, file)
        rows[file.name] = ROWS if kind == "ids" else 0
        onnx.save(renamed(model, number), file.with_suffix(".renamed"))
        try:
            optimised(file, file.with_suffix(".runtime"))
        except Exception:  # noqa: BLE001  # a net that the runtime refuses is no pair
            file.unlink()
    return rows


OPTIONS = (
    option("--nets", default=100),
    option("--first-seed", default=0),
    option("--corpus", type=Path),
    option("--python", help="interpreter with onnxslim and onnxoptimizer"),
    option("--folder", type=Path, required=True),
    option("--forms", nargs="*", choices=FORMS, default=[], help="also in these formats"),
)


def main(options: Namespace, record: Record) -> None:
    """Run the benchmark and print its counts."""
    warnings.simplefilter("ignore")
    rows = write_nets(options.folder, options.first_seed, options.nets, options.corpus)
    for tool in TOOLS if options.python else ():
        script = Path(__file__).with_name("rewriting.py")
        command = [options.python, str(script), tool, str(options.folder)]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    counts: Counter[tuple[str, str]] = Counter()
    for number, (way, file, other) in enumerate(rewritings(options.folder, options.forms, rows)):
        if other is None:
            counts[way, ""] += 1
            continue
        try:
            found = netweave.compare(file, other) if number % 2 else netweave.compare(other, file)
            verdict, sentence = found.verdict.name, found.sentence
            if found.equal and not found.is_strictly_equal:
                verdict = f"{verdict} with a caveat"
        except UnsupportedError:
            verdict = "UNREAD"
        except NetweaveError as error:
            verdict, sentence = "ERROR", str(error)
        counts[way, verdict] += 1
        if verdict not in {"IDENTICAL", "EQUAL", "UNREAD"}:
            print(verdict, file.name, way, sentence[:200], flush=True)
    for (way, verdict), count in sorted(counts.items()):
        print(f"{way:14} {verdict:24} {count:5}")
    verdicts = {f"{way}: {verdict}": count for (way, verdict), count in sorted(counts.items())}
    record.save({"nets": options.nets, "first seed": options.first_seed, **verdicts})
