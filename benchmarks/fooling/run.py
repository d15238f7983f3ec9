"""Compares random nets with mutants of theirs and counts what is called identical against an oracle.

python -m benchmarks.fooling.run --pairs 20000 --first-seed 1000000
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

import netweave
from benchmarks.fooling import oracle
from benchmarks.fooling.bases import real_nets
from benchmarks.fooling.mutations import mutate
from benchmarks.fooling.programs import ROWS, draw_program
from netweave.comparison import Verdict
from netweave.errors import NetweaveError

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARE_OF_REAL = 0.1
"""Of the pairs, so many are mutants of real nets."""


def pairs(first_seed: int, count: int, corpus: Path | None) -> Iterator[dict[str, Any]]:
    """Yield pairs that an oracle has judged: both nets, what was changed, whether they differ.

    Args:
        first_seed: Seed of the first pair; each has the next.
        count: Number of pairs.
        corpus: Folder of real nets, of which some pairs are made; None for none.
    """
    real = real_nets(corpus) if corpus is not None else []
    seed, made = first_seed, 0
    while made < count:
        seed += 1
        if real and seed % round(1 / SHARE_OF_REAL) == 0:
            kind, model = real[seed // 10 % len(real)]
        else:
            model, kind = draw_program(seed)
        changed = mutate(model, seed)
        if changed is None:
            continue
        mutant, what = changed
        rows = ROWS if kind == "ids" else 0
        differ = oracle.differ(model, mutant, seed=seed, rows=rows)
        if differ is None:  # the change made a net that does not run
            continue
        made += 1
        yield {"seed": seed, "kind": kind, "what": what, "differ": differ, "nets": (model, mutant)}


def judge(row: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return what Netweave says of a pair, in an order that depends on its seed."""
    files = [folder / "a.onnx", folder / "b.onnx"]
    for file, model in zip(files, row["nets"], strict=True):
        onnx.save(model, file)
    order = files if row["seed"] % 2 else files[::-1]
    start = time.perf_counter()
    try:
        found = netweave.compare(*order)
        verdict, sentence = found.verdict.name, found.sentence
        if found.verdict is Verdict.EQUAL and found.precision is not None:
            verdict = "EQUAL within rounding"  # the sentence says to which format, and how much that loses
    except NetweaveError as error:
        verdict, sentence = "ERROR", str(error)
    seconds = time.perf_counter() - start
    known = {key: row[key] for key in ("seed", "kind", "what", "differ")}
    return {**known, "verdict": verdict, "sentence": sentence, "seconds": seconds}


def main() -> None:
    """Run the benchmark and print its counts; rows that fooled the comparison go to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--folder", type=Path, required=True, help="for files of pairs")
    parser.add_argument("--rows", type=Path, help="write every row, as JSON lines")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    options.folder.mkdir(parents=True, exist_ok=True)
    counts: Counter[tuple[str, str]] = Counter()
    fooled = []
    with (options.rows or options.folder / "rows.jsonl").open("w") as out:
        for number, row in enumerate(pairs(options.first_seed, options.pairs, options.corpus), start=1):
            judged = judge(row, options.folder)
            out.write(json.dumps(judged) + "\n")
            truth = {True: "differ", False: "agree"}[judged["differ"]]
            counts[truth, judged["verdict"]] += 1
            if truth == "differ" and judged["verdict"] in {"IDENTICAL", "EQUAL"}:
                fooled.append(judged)
                print("FOOLED", *list(judged.values())[:3], judged["sentence"][:120], flush=True)
            if judged["verdict"] == "ERROR":
                print("ERROR", *list(judged.values())[:3], judged["sentence"][:200], flush=True)
            if number % 500 == 0:
                print(number, dict(counts), flush=True)
    for (truth, verdict), count in sorted(counts.items()):
        print(f"oracle: {truth:8} verdict: {verdict:21} {count:6}")
    undecided = sum(count for (_, verdict), count in counts.items() if verdict in {"UNDECIDED", "ERROR"})
    print(f"fooled: {len(fooled)}; undecided: {undecided / max(1, sum(counts.values())):.1%}")


if __name__ == "__main__":
    main()
