"""Nets of Transformers against dumps of ports, right and wrong, scored by what was planted.

::

    python -m benchmarks dumps [--unseen] [--only FAMILY:SPELLING:MISTAKE:DISGUISE] [--clean] [--json FILE]

A is a tiny net of Transformers. B is a port (``benchmarks/decoders``) of which only the dump is given, in one
of its spellings and with a mistake. The tensors that a mistake changes are those that differ from the dump of
the right port in the same spelling: the first of these is the first wrong tensor. The cause must have a word
that was written down with the mistake. Of the cases in their order each second one is unseen.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

import netweave
from benchmarks.decoders import encoders, mistakes, originals
from benchmarks.decoders.ports import SPELLINGS
from benchmarks.decoders.run import write_port
from benchmarks.decoders.scoring import Row, compared, run_cases
from benchmarks.dumps import mamba, resnet
from benchmarks.dumps.disguises import DISGUISES, OF_SEQUENCES, Dump
from benchmarks.record import Namespace, Record, option
from netweave.comparison.dumps import compare_dump, compare_sequences
from netweave.comparison.result.comparison import Comparison
from netweave.comparison.result.verdicts import Verdict
from netweave.graph import Graph, graph_of_weights

Case = tuple[str, str, str, str]
"""Family, spelling, mistake and disguise; the mistake of a right port is empty."""

DECODERS = ("qwen3", "gemma3", "mixtral")
ENCODERS = ("vit", "whisper")
ADDED = ("llama", "neox")
"""Decoders that were added later, with Mamba: their cases are numbered by themselves."""

OPTIONS = (
    option("--unseen", default=False, help="the half of the faults that is kept to the end"),
    option("--added", default=False, help="the nets that were added later: Llama, GPT-NeoX, Mamba"),
    option("--mixed", default=False, help="mistakes of all nets, each in the next disguise"),
    option("--clean", default=False, help="right ports in every disguise"),
    option(
        "--disguise", default="plain", choices=tuple(DISGUISES), help="the form in which mistakes are dumped"
    ),
    option("--only", default="", help="a pattern of family:spelling:mistake:disguise"),
)

CHANGED = 1e-4
"""A tensor with a larger error, relative to its rms, is wrong."""


def planted(disguise: str) -> Iterator[Case]:
    """Yield the cases with a mistake."""
    yield from _of_decoders(DECODERS, disguise)
    for family in ENCODERS:
        for number, mistake in enumerate(encoders.FAMILIES[family]):
            yield family, encoders.SPELLINGS[number % 2], mistake, disguise
    for mistake in resnet.MISTAKES:
        yield "resnet", "original", mistake, disguise


def _of_decoders(families: Sequence[str], disguise: str) -> Iterator[Case]:
    for family in families:
        names = [name for name, row in mistakes.MISTAKES.items() if family in row.families]
        spellings = tuple(SPELLINGS)
        for number, mistake in enumerate(names):
            yield family, spellings[number % len(spellings)], mistake, disguise


def added(disguise: str) -> Iterator[Case]:
    """Yield the cases with a mistake of the nets that were added later."""
    yield from _of_decoders(ADDED, disguise)
    for number, mistake in enumerate(mamba.MISTAKES):
        yield "mamba", mamba.SPELLINGS[number // 2 % 2], mistake, disguise


def mixed() -> Iterator[Case]:
    """Yield all mistakes, each in the next disguise: two cases in one, of which the second is unseen."""
    names = tuple(DISGUISES)
    for number, (family, spelling, mistake, _) in enumerate(chain(planted("plain"), added("plain"))):
        disguise = names[number // 2 % len(names)]
        yield family, spelling, mistake, disguise if family in disguised(disguise) else "plain"


def disguised(disguise: str) -> tuple[str, ...]:
    """Return the nets whose dumps come in a disguise."""
    decoders = (*DECODERS, *ADDED, "mamba")
    return decoders if disguise in OF_SEQUENCES else (*decoders, *ENCODERS, "resnet")


def spellings_of(family: str) -> tuple[str, ...]:
    """Return the spellings of the ports of a net."""
    known = {"resnet": ("original",), "mamba": mamba.SPELLINGS} | dict.fromkeys(ENCODERS, encoders.SPELLINGS)
    return tuple(known.get(family, SPELLINGS))


def clean() -> Iterator[Case]:
    """Yield right ports in every disguise."""
    for disguise in DISGUISES:
        for family in disguised(disguise):
            for spelling in spellings_of(family):
                yield family, spelling, "", disguise


@cache
def original(family: str) -> tuple[Any, tuple[torch.Tensor, ...], Graph]:
    """Return a net of Transformers, inputs of it, and its graph."""
    if family in {*DECODERS, *ADDED, "mamba"}:
        generator = torch.Generator().manual_seed(0)
        given = (torch.randint(originals.VOCABULARY, (2, originals.LENGTH), generator=generator),)
        net: Any = mamba.original() if family == "mamba" else originals.original(family)
    elif family in ENCODERS:
        net, given = encoders.original(family), tuple(encoders.inputs_of(family))
    else:
        net = resnet.original()
        given = (torch.randn(2, 3, 48, 64, generator=torch.Generator().manual_seed(0)),)
    return net, given, netweave.load(net, examples=list(given))


@cache
def graph_at(family: str, shape: tuple[int, int]) -> Graph:
    """Return the graph of a decoder for other sizes of its tokens."""
    net, given, _ = original(family)
    return netweave.load(net, examples=[given[0][: shape[0], : shape[1]]])


@cache
def dump_of(family: str, spelling: str, mistake: str) -> Dump:
    """Return what a port computes, in the order in which it does."""
    net, given, _ = original(family)
    with tempfile.TemporaryDirectory() as folder:
        if family == "mamba":
            port: Any = mamba.port(spelling, mistake, net)
        elif family in {*DECODERS, *ADDED}:
            weights = originals.own_names(family, net)
            port = write_port(Path(folder), (family, spelling, mistake), weights)
        elif family in ENCODERS:
            port = encoders.port(Path(folder), (family, spelling, mistake), net)
        else:
            port = resnet.wrong(net, mistake)
    with torch.no_grad(), netweave.capture(port) as dump:
        port(*given)
    return dict(dump.tensors)


def words_of(family: str, mistake: str) -> str:
    """Return the pattern that the cause of a mistake must have."""
    if family in {*DECODERS, *ADDED}:
        return "|".join(mistakes.MISTAKES[mistake].words)
    known = {"mamba": mamba.MISTAKES, "resnet": resnet.MISTAKES}
    return (known.get(family) or encoders.FAMILIES[family])[mistake].words


def _is_changed(x: np.ndarray, right: np.ndarray | None) -> bool:
    if right is None or x.shape != right.shape:
        return True
    if x.dtype != np.float32:
        return False
    return bool(np.abs(x - right).max() > CHANGED * np.sqrt(np.square(right).mean()))


def _ordered(x: np.ndarray) -> np.ndarray:
    return np.sort(x, axis=-1) if x.dtype == np.float32 else x


def first_wrong(wrong: Dump, right: Dump) -> list[str]:
    """Return the first wrong tensor; and the first but for the order of features, if that is another one.

    A tensor with the same features in another order is right in a port that stores its weights so.
    """
    found: list[str] = []
    for form in (lambda x: x, _ordered):
        changed = (
            n for n, x in wrong.items() if _is_changed(form(x), form(right[n]) if n in right else None)
        )
        found += [name for name in (next(changed, ""),) if name]
    return found


def row_of(case: Case) -> Row:
    """Return what a comparison says of one case, and whether it is right."""
    family, spelling, mistake, disguise = case
    row: Row = {}
    graph, whole = original(family)[2], dump_of(family, spelling, mistake)
    shown, names = DISGUISES[disguise](whole)
    right = dump_of(family, spelling, "")
    if disguise == "fused":  # a tensor that holds several is wrong if one of them is
        whole = {names[name]: x for name, x in shown.items()}
        right_shown, right_names = DISGUISES[disguise](right)
        right = {right_names[name]: x for name, x in right_shown.items()}
    whole = {name: x for name, x in whole.items() if name in names.values()}
    firsts = first_wrong(whole, right) if mistake else []
    if mistake and not firsts:
        return row | {"said": "the mistake changes nothing"}
    dumped = graph_of_weights(shown, format_name="arrays", file="dump")

    def compare_part(part: Dump) -> Comparison:
        tokens = [x for x in part.values() if x.dtype.kind == "i"]
        is_cut = any(part.get(name) is not x for name, x in shown.items())
        net = graph_at(family, tokens[0].shape) if is_cut else graph
        return compare_dump(net, dumped, part)

    comparison = compared(row, lambda: compare_sequences(shown, compare_part))
    if comparison is None:
        return row
    findings = comparison.findings
    row["different"] = comparison.verdict is Verdict.DIFFERENT or (comparison.equal and bool(findings))
    if mistake and row["different"]:
        finding = findings[0]
        named = names.get(finding.layer_b.partition("[")[0], "")
        row |= {"first": firsts, "at": named}
        row["place"] = any(_is_same(whole, named, first) for first in firsts)
        row["named"] = finding.mismatch is not None and bool(
            re.search(words_of(family, mistake), finding.cause)
        )
    return row


def _is_same(dump: Mapping[str, np.ndarray], a: str, b: str) -> bool:
    """Return whether two names are of the same values: a module that ends in another returns its tensor."""
    return a in dump and dump[a].size == dump[b].size and np.array_equal(dump[a].ravel(), dump[b].ravel())


def summarised(rows: list[Row]) -> dict[str, Any]:
    """Return the counts."""
    done = [row for row in rows if "s" in row]
    times = sorted(row["s"] for row in done) or [0.0]
    keys: tuple[tuple[str, Callable[[Row], bool]], ...] = (
        ("different", lambda row: row["different"]),
        ("first tensor right", lambda row: row.get("place", False)),
        ("cause named", lambda row: row.get("named", False)),
        ("not decidable", lambda row: row["verdict"] == Verdict.UNDECIDED.value),
    )
    counts = {name: sum(bool(of(row)) for row in done) for name, of in keys}
    seconds = [times[len(times) // 2], times[-1]]
    return {
        "cases": len(rows),
        "errors": len(rows) - len(done),
        **counts,
        "seconds, median and most": seconds,
    }


def main(options: Namespace, record: Record) -> None:
    """Run the cases, and print the counts."""
    cases = clean() if options.clean else (added if options.added else planted)(options.disguise)
    cases = mixed() if options.mixed else cases
    wanted = {
        ":".join(case): partial(row_of, case)
        for number, case in enumerate(cases)
        if (options.clean or (number % 2 == 1) == options.unseen) and re.search(options.only, ":".join(case))
    }
    which = "mixed" if options.mixed else f"{'added, ' * options.added}{options.disguise}"
    kind = "clean" if options.clean else f"{'unseen' if options.unseen else 'seen'}, {which}"
    record.results[kind] = summarised(run_cases(wanted, record))
    record.save()
    print(json.dumps(record.results[kind], indent=1))
