"""Compares random nets with mutants of theirs and counts what is called identical against an oracle.

python -m benchmarks fooling --pairs 20000 --first-seed 1000000 --folder FOLDER
"""

from __future__ import annotations

import json
import time
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

import netweave
from benchmarks.fooling import oracle
from benchmarks.fooling.bases import real_nets, with_stored_constants
from benchmarks.fooling.forms import FORMS, form
from benchmarks.fooling.mutations import mutate
from benchmarks.fooling.programs import ROWS, draw_program
from benchmarks.record import Namespace, Record, option
from netweave.comparison import Verdict
from netweave.errors import NetweaveError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARE_OF_REAL = 0.1
"""Of the pairs, so many are mutants of real nets."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where pairs come from.

    Attributes:
        corpus: Folder of real nets, of which some pairs are made; None for none.
        bases: Folder of ONNX files that all pairs are made of, instead of drawn nets; None for none.
        form: Format that the mutant is written in.
        folder: For files of pairs.
    """

    corpus: Path | None
    bases: Path | None
    form: str
    folder: Path


def pairs(first_seed: int, count: int, sources: Sources, refused: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yield pairs that an oracle has judged: both nets, what was changed, whether they differ.

    Args:
        first_seed: Seed of the first pair; each has the next.
        count: Number of pairs.
        sources: Where they come from.
        refused: Takes how often the format did not hold a mutant.
    """
    real = real_nets(sources.corpus) if sources.corpus is not None else []
    files = sorted(sources.bases.glob("*.onnx")) if sources.bases is not None else []
    seed, made = first_seed, 0
    while made < count:
        seed += 1
        if files:
            model, kind = with_stored_constants(onnx.load(files[seed % len(files)])), "base"
        elif real and seed % round(1 / SHARE_OF_REAL) == 0:
            kind, model = real[seed // 10 % len(real)]
        else:
            model, kind = draw_program(seed)
        changed = mutate(model, seed)
        if changed is None:
            continue
        mutant, what = changed
        nets = [sources.folder / "a.onnx", sources.folder / "b.onnx"]
        for file, net in zip(nets, (model, mutant), strict=True):
            onnx.save(net, file)
        if not is_valid(nets[1]):
            continue
        try:
            b = form(sources.form, nets[1])
        except NetweaveError as error:
            print("ERROR", seed, kind, what, str(error)[:200], flush=True)
            refused["error"] += 1
            continue
        if b is None:
            refused["refused"] += 1
            continue
        rows = ROWS if kind == "ids" else 0
        differ = oracle.differ(model, mutant, seed=seed, rows=rows)
        if differ is None:  # the change made a net that does not run
            continue
        made += 1
        yield {"seed": seed, "kind": kind, "what": what, "differ": differ, "nets": (str(nets[0]), b)}


def is_valid(file: Path) -> bool:
    """Return whether ONNX Runtime takes a net."""
    try:
        oracle.session(onnx.load(file))
    except Exception:  # noqa: BLE001  # a net that the mutation broke is no pair
        return False
    return True


def judge(row: dict[str, Any]) -> dict[str, Any]:
    """Return what Netweave says of a pair, in an order that depends on its seed."""
    order = row["nets"] if row["seed"] % 2 else row["nets"][::-1]
    start = time.perf_counter()
    try:
        found = netweave.compare(*order)
        verdict, sentence = found.verdict.name, found.sentence
        if found.verdict is Verdict.EQUAL and found.precision is not None:
            verdict = "EQUAL within rounding"  # the sentence says to which format, and how much that loses
        elif found.verdict is Verdict.EQUAL and not found.is_strictly_equal:
            verdict = "EQUAL with a caveat"
    except UnsupportedError as error:  # the reader refuses what another tool wrote
        verdict, sentence = "UNREAD", str(error)
    except NetweaveError as error:
        verdict, sentence = "ERROR", str(error)
    seconds = time.perf_counter() - start
    known = {key: row[key] for key in ("seed", "kind", "what", "differ")}
    return {**known, "verdict": verdict, "sentence": sentence, "seconds": seconds}


OPTIONS = (
    option("--pairs", default=500),
    option("--first-seed", default=0),
    option("--corpus", type=Path),
    option("--folder", type=Path, required=True, help="for files of pairs"),
    option("--rows", type=Path, help="write every row, as JSON lines"),
    option("--bases", type=Path, help="a folder of ONNX files to change, instead of drawn nets"),
    option("--to", choices=FORMS, default="onnx", help="format of the changed net"),
)


def main(options: Namespace, record: Record) -> None:
    """Run the benchmark and print its counts; every row goes to a file."""
    warnings.simplefilter("ignore")
    options.folder.mkdir(parents=True, exist_ok=True)
    sources = Sources(options.corpus, options.bases, options.to, options.folder)
    counts: Counter[tuple[str, str]] = Counter()
    refused: Counter[str] = Counter()
    with (options.rows or options.folder / "rows.jsonl").open("w") as out:
        judged = map(judge, pairs(options.first_seed, options.pairs, sources, refused))
        for number, row in enumerate(judged, start=1):
            out.write(json.dumps(row) + "\n")
            counts["differ" if row["differ"] else "agree", row["verdict"]] += 1
            is_fooled = row["differ"] and row["verdict"] in {"IDENTICAL", "EQUAL"}
            if is_fooled or row["verdict"] == "ERROR":
                word = "FOOLED" if is_fooled else "ERROR"
                print(word, *list(row.values())[:3], row["sentence"][:200], flush=True)
            if number % 500 == 0:
                print(number, dict(counts), flush=True)
    for (truth, verdict), count in sorted(counts.items()):
        print(f"oracle: {truth:8} verdict: {verdict:21} {count:6}")
    compared = sum(count for (_, verdict), count in counts.items() if verdict != "UNREAD")
    undecided = sum(count for (_, verdict), count in counts.items() if verdict in {"UNDECIDED", "ERROR"})
    fooled = counts["differ", "IDENTICAL"] + counts["differ", "EQUAL"]
    print(f"fooled: {fooled}; undecided: {undecided / max(1, compared):.1%}; not written: {dict(refused)}")
    verdicts = {f"{truth}: {verdict}": count for (truth, verdict), count in sorted(counts.items())}
    record.save({"pairs": options.pairs, "first seed": options.first_seed, "fooled": fooled, **verdicts})
