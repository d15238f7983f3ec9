"""Comparisons of ports with their originals, scored by what was planted.

::

    python -m benchmarks.decoders.run --folder build/decoders [--held-out] [--only FAMILY:SPELLING[:MISTAKE]]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import netweave
from benchmarks.decoders.mistakes import MISTAKES
from benchmarks.decoders.originals import (
    FAMILIES,
    HELD_OUT_FAMILIES,
    LENGTH,
    original,
    own_names,
)
from benchmarks.decoders.ports import HELD_OUT_SPELLINGS, SPELLINGS, Writer, weights_of
from netweave.comparison.result.comparison import EQUAL_VERDICTS
from netweave.comparison.result.verdicts import Verdict
from netweave.errors import NetweaveError

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
SAME = {verdict.value for verdict in EQUAL_VERDICTS}

Case = tuple[str, str, str]
"""Family, spelling and mistake; the mistake of a right port is empty."""


def cases(*, held_out: bool) -> Iterator[Case]:
    """Yield the cases for development, or those that are held out: a family or a spelling of theirs."""
    for family in FAMILIES:
        for spelling in SPELLINGS:
            if (family in HELD_OUT_FAMILIES or spelling in HELD_OUT_SPELLINGS) == held_out:
                yield family, spelling, ""
    shown = [name for name in SPELLINGS if name not in HELD_OUT_SPELLINGS]
    for number, (mistake, row) in enumerate(MISTAKES.items()):
        for place, family in enumerate(row.families):
            if (family in HELD_OUT_FAMILIES) == held_out:
                pool = list(HELD_OUT_SPELLINGS) if held_out else shown
                yield family, pool[(number + place) % len(pool)], mistake


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
    module = importlib.util.module_from_spec(
        spec := importlib.util.spec_from_file_location(path.stem.replace("-", "_"), path)  # type: ignore[arg-type]
    )
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    port = module.Port().eval()
    port.load_state_dict(weights_of(family, spelling, weights, mistake))
    torch.save(port.state_dict(), path.with_suffix(".pt"))
    return port


def row_of(case: Case, folder: Path, originals: Originals) -> dict[str, Any]:
    """Return what a comparison says of one case, and whether it is right."""
    family, spelling, mistake = case
    row: dict[str, Any] = {"family": family, "spelling": spelling, "mistake": mistake}
    try:
        model, graph, _ = originals(family)
    except NetweaveError as error:
        return row | {"verdict": "not read", "said": str(error)[:300]}
    port = write_port(folder, case, own_names(family, model))
    tokens = torch.randint(97, (2, LENGTH), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        a, b = model(tokens).logits, port(tokens)
    row["truth"] = float((a - b).abs().max() / a.square().mean().sqrt())
    if (row["truth"] < 1e-4) != (not mistake):
        return row | {"verdict": "case is wrong", "said": f"the outputs differ by {row['truth']:.3g}"}
    start = time.perf_counter()
    try:
        read = netweave.load(port, input_shapes={"tokens": (1, LENGTH)})
        row["read_s"] = round(time.perf_counter() - start, 1)
        compared = netweave.compare(graph, read)
    except NetweaveError as error:
        return row | {"verdict": "error", "said": str(error)[:300]}
    except Exception as error:  # noqa: BLE001 - any other error counts
        return row | {"verdict": "raw error", "said": f"{type(error).__name__}: {error}"[:300]}
    row["s"] = round(time.perf_counter() - start, 1)
    findings = compared.findings
    shown = [finding for finding in findings if not finding.latent] or list(findings)
    row |= {"verdict": compared.verdict.value, "said": compared.sentence, "findings": len(findings)}
    row["first"] = [
        f"{each.layer_a} | {each.layer_b} | {each.cause} | {each.fix} | {each.place_b}" for each in shown[:3]
    ]
    if mistake:
        truth = MISTAKES[mistake]
        first = shown[0] if shown else None
        row["found"] = compared.verdict is Verdict.DIFFERENT or (compared.equal and bool(findings))
        row["place"] = first is not None and any(
            re.search(truth.place, layer) for layer in (first.layer_a, _as_original(first.layer_b, spelling))
        )
        row["named"] = first is not None and any(re.search(word, first.cause) for word in truth.words)
        row["fix"] = first is not None and bool(first.fix) and first.error_fixed is not None
    return row


def _as_original(layer: str, spelling: str) -> str:
    """Return a port's name of a layer with the words that the patterns of places know."""
    names = SPELLINGS[spelling].names
    known = {"layers": "layers", "attention": "attention", "mlp": "mlp", "norm1": "norm", "norm2": "norm"}
    known |= {"embed": "embed", "head": "head"}
    words = {names[ours]: word for ours, word in known.items()}
    return ".".join(words.get(part, part) for part in layer.split("."))


def summarised(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts."""
    right = [row for row in rows if not row["mistake"]]
    planted = [row for row in rows if row["mistake"]]
    times = sorted(row["s"] for row in rows if "s" in row)
    return {
        "right": len(right),
        "right, identical or equal": sum(row["verdict"] in SAME for row in right),
        "right, and no finding": sum(row["verdict"] in SAME and not row["findings"] for row in right),
        "right, findings": sum(row.get("findings", 0) for row in right),
        "planted": len(planted),
        **{key: sum(row.get(key, False) for row in planted) for key in ("found", "place", "named", "fix")},
        "place and named": sum(row.get("place", False) and row.get("named", False) for row in planted),
        "errors": [(row["family"], row["spelling"], row["mistake"]) for row in rows if "s" not in row],
        "seconds, median and largest": [times[len(times) // 2], times[-1]] if times else [],
    }


def main() -> None:
    """Run what is not done yet, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/decoders"))
    parser.add_argument(
        "--held-out", action="store_true", help="the families and spellings that are held out"
    )
    parser.add_argument("--only", default="", help="a pattern of family:spelling:mistake")
    parser.add_argument("--right", action="store_true", help="right ports alone")
    parser.add_argument("--name", default="", help="what to call the run; the commit by default")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    name = (
        arguments.name
        or subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], text=True, cwd=HERE).strip()
    )
    arguments.folder.mkdir(parents=True, exist_ok=True)
    kept = arguments.folder / f"rows-{name}.jsonl"
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    done = {(row["family"], row["spelling"], row["mistake"]) for row in rows}
    originals = Originals()
    wanted = [
        case
        for case in cases(held_out=arguments.held_out)
        if re.search(arguments.only, ":".join(case)) and not (arguments.right and case[2])
    ]
    for case in wanted:
        if case in done:
            continue
        row = row_of(case, arguments.folder, originals)
        print(
            json.dumps({k: row.get(k) for k in ("family", "spelling", "mistake", "verdict", "findings", "s")})
        )
        rows.append(row)
        with kept.open("a") as file:
            file.write(json.dumps(row) + "\n")
    print(
        json.dumps(
            summarised(
                [row for row in rows if (row["family"], row["spelling"], row["mistake"]) in set(wanted)]
            ),
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
