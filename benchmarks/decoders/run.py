"""Comparisons of ports with their originals, scored by what was planted.

::

    python -m benchmarks decoders --folder build/decoders [--held-out] [--only FAMILY:SPELLING[:MISTAKE]]
    python -m benchmarks decoders --folder build/fresh --drawn [--held-out]
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import netweave
from benchmarks.decoders.mistakes import FRESH, MISTAKES
from benchmarks.decoders.originals import (
    FAMILIES,
    FRESH_FAMILIES,
    HELD_OUT_FAMILIES,
    LENGTH,
    original,
    own_names,
)
from benchmarks.decoders.ports import HELD_OUT_SPELLINGS, SPELLINGS, Writer, weights_of
from benchmarks.decoders.scoring import WRONG_CASE, Row, compared, counts, distance, judge, run_cases
from benchmarks.record import Namespace, Record, option
from benchmarks.source_module import source_module
from netweave.errors import NetweaveError

if TYPE_CHECKING:
    from collections.abc import Iterator

Case = tuple[str, str, str]
"""Family, spelling and mistake; the mistake of a right port is empty."""


def cases(*, held_out: bool) -> Iterator[Case]:
    """Yield the cases for development, or those that are held out: a family or a spelling of theirs."""
    for family in (family for family in FAMILIES if family not in FRESH_FAMILIES):
        for spelling in SPELLINGS:
            if (family in HELD_OUT_FAMILIES or spelling in HELD_OUT_SPELLINGS) == held_out:
                yield family, spelling, ""
    shown = [name for name in SPELLINGS if name not in HELD_OUT_SPELLINGS]
    for number, (mistake, row) in enumerate(MISTAKES.items()):
        for place, family in enumerate(row.families):
            if (family in HELD_OUT_FAMILIES) == held_out:
                pool = list(HELD_OUT_SPELLINGS) if held_out else shown
                yield family, pool[(number + place) % len(pool)], mistake


def drawn_cases(*, held_out: bool) -> Iterator[Case]:
    """Yield cases that nobody ran while the comparer was written; each third is held out.

    Of all families, spellings and mistakes without those of ``cases``, 45 are drawn; behind them stand the
    right ports of the families that are in no other case.
    """
    known = {*cases(held_out=False), *cases(held_out=True)}
    planted = {name: row.families for name, row in MISTAKES.items()}
    planted |= {
        name: (*families, *(family for family in FRESH if name in FRESH[family].split()))
        for name, families in planted.items()
    }
    every = (
        (family, spelling, mistake)
        for mistake, families in planted.items()
        for family in families
        for spelling in SPELLINGS
    )
    chosen = random.Random(35).sample([case for case in every if case not in known], 45)
    chosen += [(family, spelling, "") for family in FRESH_FAMILIES for spelling in SPELLINGS]
    yield from (case for number, case in enumerate(chosen, 1) if (number % 3 == 0) == held_out)


class Originals:
    """Models of Transformers and their graphs, each made once."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[Any, Any, float]] = {}

    def __call__(self, family: str) -> tuple[Any, Any, float]:
        """Return the model, its graph, and the seconds that reading took."""
        if family not in self._made:
            model = original(family)
            start = time.perf_counter()
            graph = netweave.load(model, input_shapes={"input_ids": (1, LENGTH)})
            self._made[family] = model, graph, time.perf_counter() - start
        return self._made[family]


def write_port(folder: Path, case: Case, weights: dict[str, torch.Tensor]) -> Any:
    """Write a port and its weights, and return the module."""
    family, name, mistake = case
    spelling = SPELLINGS[name]
    path = folder / f"{'-'.join(part.replace('-', '_') for part in case if part)}.py"
    path.write_text(Writer(family, spelling, mistake).text())
    port = source_module(path).Port().eval()
    port.load_state_dict(weights_of(family, spelling, weights, mistake))
    torch.save(port.state_dict(), path.with_suffix(".pt"))
    return port


def row_of(case: Case, folder: Path, originals: Originals) -> Row:
    """Return what a comparison says of one case, and whether it is right."""
    family, spelling, mistake = case
    row: Row = {"is_mistake": bool(mistake)}
    try:
        model, graph, _ = originals(family)
    except NetweaveError as error:
        return row | {"verdict": "not read", "said": str(error)[:300]}
    port = write_port(folder, case, own_names(family, model))
    tokens = torch.randint(97, (2, LENGTH), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        row["truth"] = distance(model(tokens).logits, port(tokens))
    if (row["truth"] < WRONG_CASE) != (not mistake):
        return row | {"verdict": "case is wrong", "said": f"the outputs differ by {row['truth']:.3g}"}

    def compare() -> Any:
        return netweave.compare(graph, netweave.load(port, input_shapes={"tokens": (1, LENGTH)}))

    comparison = compared(row, compare)
    if mistake and comparison is not None:
        truth = MISTAKES[mistake]
        judge(row, comparison, truth.place, "|".join(truth.words), partial(_as_original, spelling=spelling))
    return row


def _as_original(layer: str, *, spelling: str) -> str:
    """Return a port's name of a layer with the words that the patterns of places know."""
    names = SPELLINGS[spelling].names
    known = {"layers": "layers", "attention": "attention", "mlp": "mlp", "norm1": "norm", "norm2": "norm"}
    known |= {"embed": "embed", "head": "head"}
    words = {names[ours]: word for ours, word in known.items()}
    return ".".join(words.get(part, part) for part in layer.split("."))


def summarised(rows: list[Row]) -> dict[str, Any]:
    """Return the counts."""
    times = sorted(row["s"] for row in rows if "s" in row)
    return {
        **counts(rows, is_mistake=False),
        **counts(rows, is_mistake=True),
        "errors": [row["case"] for row in rows if "s" not in row],
        "seconds, median and largest": [times[len(times) // 2], times[-1]] if times else [],
    }


OPTIONS = (
    option("--folder", default=Path("build/decoders")),
    option("--held-out", default=False, help="the families and spellings that are held out"),
    option("--drawn", default=False, help="the cases that a fixed seed draws"),
    option("--only", default="", help="a pattern of family:spelling:mistake"),
    option("--right", default=False, help="right ports alone"),
)


def main(options: Namespace, record: Record) -> None:
    """Run what is not done yet, and print the counts."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    options.folder.mkdir(parents=True, exist_ok=True)
    originals = Originals()
    wanted = {
        ":".join(case): partial(row_of, case, options.folder, originals)
        for case in (drawn_cases if options.drawn else cases)(held_out=options.held_out)
        if re.search(options.only, ":".join(case)) and not (options.right and case[2])
    }
    print(json.dumps(summarised(run_cases(wanted, record)), indent=1))
