"""What a comparison says of a planted fault, and counts of that."""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.faults.bare import UNDECIDABLE, UNSEEN, UNSEEN_WHERE_FOLDED
from benchmarks.faults.halves import half_of
from netweave.comparison import Status, Verdict

if TYPE_CHECKING:
    from benchmarks.faults.model import Fault
    from netweave.comparison import Comparison, Group

EFFECTIVE = frozenset({Status.DIFFERENT, Status.ONLY_A, Status.ONLY_B})

EFFECT = 1e-3
"""A fault counts from this change of an output on, relative to the rms of a sample."""

COUNTS = (
    "faults", "effective", "latent", "compared", "found", "located", "in_table", "explained", "wrong",
    "latent_compared", "latent_told_apart", "equal_pairs", "false_alarms", "false_equals",
)  # fmt: skip


class Lacking(enum.Enum):
    """Which of two nets that are compared have no weights."""

    NEITHER = ""
    B = "B has none"
    BOTH = "both have none"


@dataclass
class Row:
    """One comparison with a fault.

    Attributes:
        net: The net's name.
        partner: What the faulty net was compared with; empty for the net itself.
        kind: Kind of the fault.
        layer: Where it was planted.
        effect: Largest change of an output by the oracle, relative to its rms.
        in_table: Whether a row of the mismatch table describes it.
        lacking: Which of the two has no weights, as in ``Lacking``.
        found: Whether the two were told apart.
        located: Whether the first culprit is the right layer.
        explained: Whether a right mismatch explains it.
        wrong: Whether a wrong mismatch explains it.
        false_equal: Whether the two were said to be the same.
        told: Whether a difference that weights may make up for (``bare.UNDECIDABLE``) was told as that.
        mismatch: The mismatches that the tool names.
        said: The sentence.
    """

    net: str
    partner: str
    kind: str
    layer: str
    effect: float
    in_table: bool
    lacking: str = ""
    found: bool = False
    located: bool = False
    explained: bool = False
    wrong: bool = False
    false_equal: bool = False
    told: bool = False
    mismatch: str = ""
    said: str = ""

    @property
    def effective(self) -> bool:
        """Whether the oracle sees the fault in an output."""
        return self.effect > EFFECT


def score(row: Row, fault: Fault, names: dict[str, str], found: Comparison) -> Row:
    """Fill a row in.

    Args:
        row: The row, with what is known before.
        fault: The fault.
        names: What the partner calls the layers.
        found: The comparison.
    """
    row.found = found.exit_status == 1
    row.false_equal = found.equal
    row.said = found.sentence
    row.told = bool(row.lacking) and fault.kind in UNDECIDABLE and _is_told(fault, names, found)
    culprit = next((g for g in found.groups if g.status in EFFECTIVE and g.finding), None)
    if not row.found or culprit is None or culprit.finding is None:
        return row
    row.located = bool(_layers(found, culprit) & _planted(fault, names))
    row.mismatch = culprit.finding.mismatch or ""
    keys = set(row.mismatch.split(" + ")) - {""}
    row.explained = row.located and bool(keys) and keys <= fault.mismatches
    row.wrong = bool(keys) and not keys <= fault.mismatches
    return row


def _planted(fault: Fault, names: dict[str, str]) -> set[tuple[str, str]]:
    """Return the names of the layers where a fault was planted, each with its side."""
    layers = (fault.layer, *fault.beside)
    return {("b", layer) for layer in layers} | {("a", names.get(layer, layer)) for layer in layers}


def _is_told(fault: Fault, names: dict[str, str], found: Comparison) -> bool:
    """Whether the verdict is *same structure* and says at the planted layer what differs without effect."""
    return found.verdict is Verdict.STRUCTURE and any(
        group.finding is not None
        and group.finding.latent
        and _layers(found, group) & _planted(fault, names)
        and set((group.finding.mismatch or "").split(" + ")) <= fault.mismatches
        for group in found.groups
    )


def _layers(found: Comparison, group: Group) -> set[tuple[str, str]]:
    """Return the names of the layers of a group, each with its side."""
    names = {("a", found.a.layers[key].name) for key in group.layers_a}
    names |= {("b", found.b.layers[key].name) for key in group.layers_b}
    if group.finding is not None:
        names |= {("a", group.finding.layer_a), ("b", group.finding.layer_b)}
    return names


def _no_counts() -> dict[str, Counter[str]]:
    return defaultdict(Counter)


@dataclass
class Tally:
    """Counts as a whole and by what they are of, and the comparisons that were counted."""

    counts: dict[str, Counter[str]] = field(default_factory=_no_counts)
    rows: list[Row] = field(default_factory=list)

    def add(self, keys: Sequence[str], **counts: bool | int) -> None:
        """Count under some keys, and as a whole."""
        for key in ("all", *keys):
            self.counts[key].update({name: int(value) for name, value in counts.items()})

    def take(self, other: Tally) -> None:
        """Take other counts in."""
        for key, counts in other.counts.items():
            self.counts[key].update(counts)
        self.rows += other.rows

    def to_keep(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {"counts": self.counts, "rows": [asdict(row) for row in self.rows]}

    @classmethod
    def kept(cls, value: dict[str, Any]) -> Tally:
        """Return what ``to_keep`` made."""
        found = cls(rows=[Row(**row) for row in value["rows"]])
        found.counts.update({key: Counter(counts) for key, counts in value["counts"].items()})
        return found

    def to_json(self, names: Sequence[str]) -> dict[str, Any]:
        """Return counts of these names, and the comparisons in which something is missed."""
        rows = [asdict(row) | {"effect": str(row.effect)} for row in self.rows if is_missed(row)]
        table = {key: {name: self.counts[key][name] for name in names} for key in sorted(self.counts)}
        whole = table.pop("all", dict.fromkeys(names, 0))
        return {**whole, "by": table, "missed": rows}


@dataclass
class Score:
    """Counts over a run: of comparisons of nets with weights, and of those without."""

    whole: Tally = field(default_factory=Tally)
    bare: Tally = field(default_factory=Tally)
    nets: set[str] = field(default_factory=set)

    def _keys(self, net: str, kind: str = "", lacking: str = "") -> list[str]:
        self.nets.add(net)
        half, form = half_of(net), net.partition("-")[0]
        keys = [f"half {half}", f"format {form}", f"format {form}, half {half}"]
        keys += [f"kind {kind}"] if kind else []
        return [*keys, lacking, f"format {form}, {lacking}"] if lacking else keys

    def planted(self, net: str, kind: str, moved: float, *, seen: bool) -> None:
        """Count a fault by what the oracle says of it, and by whether it can be seen without weights."""
        keys, effective = self._keys(net, kind), moved > EFFECT
        self.whole.add(keys, faults=1, effective=effective, latent=not effective)
        if seen:
            self.bare.add(keys, faults=1, effective=effective, latent=not effective)
        else:
            self.bare.add(keys, unseen=1)

    def compared(self, row: Row) -> None:
        """Count a comparison with a faulty net."""
        tally, keys = (self.bare if row.lacking else self.whole), self._keys(row.net, row.kind, row.lacking)
        tally.rows.append(row)
        if not row.effective:
            false_equal = row.false_equal and bool(row.lacking)
            tally.add(keys, latent_compared=1, latent_told_apart=row.found, false_equals=false_equal)
            return
        if row.told:
            tally.add(keys, told=1, false_equals=row.false_equal)
            return
        tally.add(
            keys,
            compared=1,
            found=row.found,
            located=row.located,
            in_table=row.in_table,
            explained=row.in_table and row.explained,
            wrong=row.wrong,
            false_equals=row.false_equal,
        )

    def equal(self, net: str, lacking: Lacking, *, alarm: bool, false_equal: bool = False) -> None:
        """Count a pair of forms that compute the same."""
        tally = self.whole if lacking is Lacking.NEITHER else self.bare
        keys = self._keys(net, lacking=lacking.value)
        tally.add(keys, equal_pairs=1, false_alarms=alarm, false_equals=false_equal)

    def rows(self) -> list[Row]:
        """Return all comparisons with faulty nets."""
        return self.whole.rows + self.bare.rows

    def num_missed(self) -> int:
        """Return how many comparisons show something that should be otherwise."""
        return sum(is_missed(row) for row in self.rows())

    def to_keep(self) -> dict[str, Any]:
        """Return everything as JSON values; see ``kept``."""
        return {"whole": self.whole.to_keep(), "bare": self.bare.to_keep(), "nets": sorted(self.nets)}

    @classmethod
    def kept(cls, value: dict[str, Any]) -> Score:
        """Return what ``to_keep`` made."""
        return cls(Tally.kept(value["whole"]), Tally.kept(value["bare"]), set(value["nets"]))

    def take(self, other: Score) -> None:
        """Take the counts of other nets in."""
        self.whole.take(other.whole)
        self.bare.take(other.bare)
        self.nets |= other.nets

    def to_json(self) -> dict[str, Any]:
        """Return all counts, and the comparisons in which something is missed."""
        halves = {net: half_of(net) for net in sorted(self.nets)}
        unseen = {
            "cannot_be_seen": dict(UNSEEN),
            "cannot_be_seen_where_folded": dict(UNSEEN_WHERE_FOLDED),
            "cannot_be_decided": dict(UNDECIDABLE),
        }
        bare = self.bare.to_json([*COUNTS, "unseen", "told"]) | unseen
        whole = self.whole.to_json(COUNTS)
        return {**whole, "mismatches": self._mismatches(), "halves": halves, "without_weights": bare}

    def _mismatches(self) -> dict[str, dict[str, Any]]:
        """Return how often each mismatch was named rightly, and the median effect; None if sizes change."""
        effects: dict[str, list[float]] = defaultdict(list)
        for row in self.whole.rows:
            if row.effective and row.explained:
                effects[row.mismatch].append(row.effect)
        middle = {mismatch: median(values) for mismatch, values in effects.items()}
        return {
            mismatch: {
                "named": len(values),
                "effect": middle[mismatch] if isfinite(middle[mismatch]) else None,
            }
            for mismatch, values in sorted(effects.items())
        }


def is_missed(row: Row) -> bool:
    """Whether a row shows something that should be otherwise."""
    if not row.effective:
        return row.found
    if row.told:
        return False
    return not row.found or not row.located or row.wrong or (row.in_table and not row.explained)
