"""Compare a net's faults and forms with one another, with weights and without, and count what is said."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import netweave
from benchmarks.faults.bare import UNSEEN, UNSEEN_WHERE_FOLDED
from benchmarks.faults.loading import load, load_bare
from benchmarks.faults.score import Lacking, Row, Score, is_missed, score

if TYPE_CHECKING:
    from benchmarks.faults.model import Fault, Net, Subject

FAULTY_SEED = 1000
"""For the first values of a faulty net, which are none of any right form's."""


@dataclass(frozen=True)
class Forms:
    """The forms of a net; the net itself has no name.

    Attributes:
        whole: With weights.
        bare: Without.
    """

    whole: dict[str, netweave.Graph] = field(default_factory=dict)
    bare: dict[str, netweave.Graph] = field(default_factory=dict)

    @classmethod
    def of(cls, subject: Subject, place: Path) -> Forms:
        """Load them."""
        forms = cls()
        for seed, (name, net) in enumerate({"": subject.net, **subject.partners}.items()):
            folder = place / (name or "net")
            forms.whole[name] = load(folder, net)
            forms.bare[name] = load_bare(folder, net, forms.whole[name], seed=seed)
        return forms

    def get(self, name: str, *, bare: bool) -> netweave.Graph:
        """Return one of them."""
        return (self.bare if bare else self.whole)[name]

    def lacking(self, name: str, number: int) -> Lacking:
        """Return what lacks weights beside a B without: A as well at every other number, if it can."""
        return Lacking.BOTH if number % 2 and name in self.bare else Lacking.B


def compare_all(subject: Subject, place: Path, results: Score) -> None:
    """Compare a subject's faults with the net and with one other form in turn, and its forms in pairs."""
    forms = Forms.of(subject, place)
    compare_forms(subject.name, forms, results)
    turns = itertools.cycle(subject.partners)
    for number, fault in enumerate(subject.faults):
        folder = place / f"fault{number}"
        moved = effect(place / "net", folder)
        if moved is None:
            continue
        seen = fault.kind not in UNSEEN and "" in forms.bare
        results.planted(subject.name, fault.kind, moved, seen=seen)
        partners = ["", next(turns)] if subject.partners else [""]
        pairs = [(partner, Lacking.NEITHER) for partner in partners]
        if seen:
            told = [name if tells(subject, fault, name) else "" for name in partners]
            pairs += [(name, forms.lacking(name, number + i)) for i, name in enumerate(told)]
        for row in Planted(subject, fault, folder, moved).rows(forms, pairs):
            results.compared(row)


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


def tells(subject: Subject, fault: Fault, partner: str) -> bool:
    """Whether a fault can be seen beside a form if the faulty net has no weights."""
    return fault.kind not in UNSEEN_WHERE_FOLDED or fault.layer not in subject.folded.get(partner, ())


def compare_forms(net: str, forms: Forms, results: Score) -> None:
    """Compare the forms of a net, which compute the same."""
    for first, second, lacking in equal_pairs(forms):
        b = forms.get(second, bare=lacking is not Lacking.NEITHER)
        found = netweave.compare(forms.get(first, bare=lacking is Lacking.BOTH), b)
        whole = lacking is Lacking.NEITHER
        alarm = not (found.equal if whole else found.same_structure)
        false_equal = found.equal and not whole
        results.equal(net, lacking, alarm=alarm, false_equal=false_equal)
        if alarm or false_equal:
            names = f"{first or 'net'} and {second or 'net'}"
            told = "FALSE ALARM" if alarm else "FALSE EQUAL"
            print(f"{told} {net}: {names}, {lacking.value}: {found.sentence}", flush=True)


def equal_pairs(forms: Forms) -> Iterator[tuple[str, str, Lacking]]:
    """Yield the forms that are compared with one another, and which of the two lack weights.

    Without weights, each is compared with itself as well: that is also the net of which an array is wrong
    (``bare.UNSEEN``).
    """
    for first, second in itertools.permutations(forms.whole, 2):
        yield first, second, Lacking.NEITHER
    for number, (first, second) in enumerate(itertools.product(forms.whole, forms.bare)):
        yield first, second, Lacking.B if first == second else forms.lacking(first, number)


@dataclass
class Faulty:
    """A net with a fault, loaded when it is asked for, and once.

    Attributes:
        net: The net.
        place: The folder of its files.
    """

    net: Net
    place: Path

    @cached_property
    def whole(self) -> netweave.Graph:
        """With its weights."""
        return load(self.place, self.net)

    @cached_property
    def bare(self) -> netweave.Graph:
        """Without."""
        return load_bare(self.place, self.net, self.whole, seed=FAULTY_SEED)


@dataclass(frozen=True)
class Planted:
    """A fault as files.

    Attributes:
        subject: The net.
        fault: The fault.
        place: The folder of the files.
        moved: What it does to the outputs.
    """

    subject: Subject
    fault: Fault
    place: Path
    moved: float

    def rows(self, forms: Forms, pairs: Sequence[tuple[str, Lacking]]) -> Iterator[Row]:
        """Compare with some forms, as A, and print what is missed."""
        faulty = Faulty(self.fault.net, self.place)
        for partner, lacking in pairs:
            a = forms.get(partner, bare=lacking is Lacking.BOTH)
            row = self._judged(partner, lacking, a, faulty)
            if is_missed(row):
                print(self._line(row), flush=True)
            yield row

    def _judged(self, partner: str, lacking: Lacking, a: netweave.Graph, faulty: Faulty) -> Row:
        fault = self.fault
        row = Row(
            self.subject.name, partner, fault.kind, fault.layer, self.moved, fault.in_table, lacking.value
        )
        try:
            found = netweave.compare(a, faulty.whole if lacking is Lacking.NEITHER else faulty.bare)
        except Exception as error:  # noqa: BLE001  (a crash is counted as not found, and the run goes on)
            row.said = f"{type(error).__name__}: {error}"
        else:
            row = score(row, fault, self.subject.names.get(partner, {}), found)
        row.said = row.said.replace(f"{self.place.parent}/", "")
        return row

    def _line(self, row: Row) -> str:
        names = ("effective", "found", "located", "explained", "wrong", "false_equal")
        flags = "".join(
            letter if getattr(row, name) else "-" for letter, name in zip("EFLXW=", names, strict=True)
        )
        where = f"{row.net} [{row.partner}] {self.place.name}"
        lacking = f", {row.lacking}" if row.lacking else ""
        return f"{flags} {where} {row.kind} at {row.layer}{lacking}: {row.said[:400]}"
