"""Comparison of stored values."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from netweave.comparison.align.sketches import SketchIndex, sketch
from netweave.comparison.layout.change import LayoutChange, LayoutMatch
from netweave.comparison.layout.tensors import match_stored
from netweave.comparison.layout.wording import describe
from netweave.comparison.result.comparison import Comparison, Evidence, Finding, Group, Status, TensorMapping
from netweave.comparison.result.verdicts import Verdict
from netweave.graph import Graph, parameter_key, parameter_layout
from netweave.graph.parameters import undo_layout
from netweave.graph.summary import list_stretch

HALF = 0.5
"""Arrays of which more elements differ are not each other's for what they hold."""


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """An array of A and its counterpart in B, found by their values or only by their names."""

    a: Stored
    b: Stored
    match: LayoutMatch
    by_values: bool

    @property
    def text(self) -> str:
        """The change from A's array to B's, in words; empty if there is none."""
        return describe(self.match.change)


@dataclass(slots=True)
class Pairing:
    """Pairs found so far, and the changes of layout that they show.

    Attributes:
        a: Arrays of A.
        b: Arrays of B.
        b_is_net: B is a net and A is weights alone.
        pairs: Those found, by the key in A.
    """

    a: Sequence[Stored]
    b: Sequence[Stored]
    b_is_net: bool = False
    pairs: dict[str, Pair] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _changes: Counter[LayoutChange] = field(default_factory=Counter)

    def run(self) -> None:
        """Find pairs: large arrays first, since they show the layout that small ones leave open."""
        by_key = {array.key: array for array in self.b}
        index = SketchIndex()
        for key, array in by_key.items():
            index.add(key, array.values)
        for array in sorted(self.a, key=lambda array: -array.values.size):
            alike = index.like(array.values.size, sketch(array.values))
            self._pair(array, [by_key[key] for key in alike], by_values=True)
        for array in self.a:
            self._pair(array, [b for b in self.b if self._stand_alike(array, b)], by_values=True)
        for array in self.a:
            self._pair(array, [b for b in self.b if _alike(array, b)], by_values=False)

    @property
    def only_a(self) -> list[Stored]:
        """Arrays of A without a counterpart."""
        return [array for array in self.a if array.key not in self.pairs]

    @property
    def only_b(self) -> list[Stored]:
        """Arrays of B without a counterpart."""
        return [array for array in self.b if array.key not in self._taken]

    def _pair(self, a: Stored, candidates: Iterable[Stored], *, by_values: bool) -> None:
        """Pair an array with the candidate most like it; one of the same name and place goes first."""
        if a.key in self.pairs:
            return
        free = [b for b in candidates if b.key not in self._taken and b.values.size == a.values.size]
        free.sort(key=lambda b: (not self._stand_alike(a, b), not _alike(a, b), a.role != b.role))
        best: Pair | None = None
        for b in free:
            hints = [change for change, _ in self._changes.most_common()]
            match = match_stored(a.values, b.values, hints, b_is_net=self.b_is_net)
            if match is None or (by_values and match.num_different > HALF * match.num_elements):
                continue
            if best is None or match.num_different < best.match.num_different:
                best = Pair(a, b, match, by_values)
            if match.is_equal:
                break
        if best is not None:
            self.pairs[a.key] = best
            self._taken.add(best.b.key)
            if best.match.is_equal:
                self._changes[best.match.change] += 1

    def _stand_alike(self, a: Stored, b: Stored) -> bool:
        """Return whether other arrays of their two layers are pairs."""
        return any(pair.a.layer == a.layer and pair.b.layer == b.layer for pair in self.pairs.values())


def _alike(a: Stored, b: Stored) -> bool:
    """Return whether two arrays are for the same in layers of the same name."""
    return a.role == b.role and _plain(a.layer) == _plain(b.layer)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """One stored array.

    Attributes:
        key: Its name.
        layer: Key of the layer that it belongs to.
        role: As in ``Parameter``.
        values: Its elements, as float64, in the source's layout.
        place: Where it stands, for a message.
    """

    key: str
    layer: str
    role: str
    values: np.ndarray
    place: str


def stored_arrays(graph: Graph) -> list[Stored]:
    """Return a net's arrays of floating point, in its order; counters and tables are no weights."""
    layer_of = {key: layer for layer in graph.layers.values() for key in layer.parameters}
    arrays = []
    for key, values in _arrays(graph):
        if values.dtype.kind != "f" and str(values.dtype) != "bfloat16":
            continue
        layer = layer_of.get(key)
        arrays.append(
            Stored(
                key=key,
                layer=layer.key if layer else key,
                role=graph.parameters[key].role,
                values=values.astype(np.float64),
                place=str(layer.origin) if layer and layer.origin else "",
            )
        )
    return arrays


def _arrays(graph: Graph) -> Iterator[tuple[str, np.ndarray]]:
    """Yield stored arrays by key; of one that several initializers hold parts of, the first part's values."""
    seen = set()
    for value in graph.model.graph.initializers.values():
        key = parameter_key(value)
        if key is None or key in seen or key not in graph.parameters or value.const_value is None:
            continue
        seen.add(key)
        array, shape = value.const_value.numpy(), graph.parameters[key].shape
        try:
            yield key, undo_layout(array, parameter_layout(value), shape)
        except ValueError:
            yield key, array


NOTE = "only stored arrays are compared, since {} no net: what is computed with them may still differ"


def compare_stored(a: Graph, b: Graph) -> Comparison:
    """Compare two nets by their stored arrays alone.

    Args:
        a: The first net, or weights alone.
        b: The second net, or weights alone.
    """
    start = time.perf_counter()
    lacking = [name for name, graph in (("A", a), ("B", b)) if not graph.loaded or not graph.parameters]
    if lacking:
        said = f"not decidable: {' and '.join(lacking)} came without weights, and there is nothing else"
        return Comparison(a, b, Verdict.UNDECIDED, said)
    pairing = Pairing(stored_arrays(a), stored_arrays(b), b_is_net=a.only_weights and not b.only_weights)
    pairing.run()
    groups = _groups(a, pairing)
    verdict, sentence = _verdict(pairing, groups)
    bare = [name for name, graph in (("A", a), ("B", b)) if graph.only_weights]
    return Comparison(
        a,
        b,
        verdict,
        sentence,
        groups=tuple(groups),
        notes=(NOTE.format("A and B are" if len(bare) == 2 else f"{bare[0]} is"),),
        seconds={"compare weights": time.perf_counter() - start},
    )


def _groups(a: Graph, pairing: Pairing) -> list[Group]:
    """Return one group for each pair of layers, in A's order, then what only B has."""
    members: dict[tuple[str, str], list[Pair]] = defaultdict(list)
    for array in pairing.a:
        pair = pairing.pairs.get(array.key)
        if pair is not None:
            members[pair.a.layer, pair.b.layer].append(pair)
    groups = [_group(*layers, pairs) for layers, pairs in members.items()]
    groups += [_alone(array, side=0) for array in pairing.only_a]
    order = {key: index for index, key in enumerate(a.layers)}
    groups.sort(key=lambda group: order.get(group.layers_a[0], len(order)))
    return groups + [_alone(array, side=1) for array in pairing.only_b]


def _group(layer_a: str, layer_b: str, pairs: Sequence[Pair]) -> Group:
    main = max(pairs, key=lambda pair: (bool(pair.text), pair.a.values.size))
    wrong = [pair for pair in pairs if not pair.match.is_equal]
    status = Status.DIFFERENT if wrong else Status.MAPPED if main.text else Status.EQUAL
    mapping = TensorMapping.named(main.a.key, main.b.key, main.match.change, main.text)
    return Group(
        nodes_a=(),
        nodes_b=(),
        layers_a=(layer_a,),
        layers_b=(layer_b,),
        evidence=Evidence.WEIGHTS if all(pair.by_values for pair in pairs) else Evidence.NAME,
        status=status,
        error=max(pair.match.error for pair in pairs),
        mapping=mapping if mapping.text else None,
        finding=_finding(wrong) if wrong else None,
    )


def _finding(wrong: Sequence[Pair]) -> Finding:
    first = wrong[0]
    return Finding(
        mismatch="weights",
        cause="; ".join(map(_difference, wrong)),
        fix=f"take {', '.join(pair.b.key for pair in wrong)} from A",
        place_a=first.a.place,
        place_b=first.b.place,
        layer_a=first.a.layer,
        layer_b=first.b.layer,
    )


def _difference(pair: Pair) -> str:
    match, worst = pair.match, pair.match.worst
    if match.num_different == match.num_elements or worst is None:
        return f"{pair.a.key} and {pair.b.key} have no number in common"
    in_a, in_b = match.change.apply(pair.a.values)[worst], pair.b.values[worst]
    return (
        f"{match.num_different:,} of {match.num_elements:,} numbers of {pair.b.key} differ, most at "
        f"{list(worst)}: {in_a:.6g} in A and {in_b:.6g} in B"
    )


def _alone(array: Stored, *, side: int) -> Group:
    mine, other = ("A", "B") if side == 0 else ("B", "A")
    sizes = "x".join(map(str, array.values.shape)) or "one number"
    finding = Finding(
        mismatch="missing-layer",
        cause=f"{mine} stores {array.key} ({sizes}), {other} has no array like it",
        place_a=array.place if side == 0 else "",
        place_b=array.place if side == 1 else "",
        layer_a=array.layer if side == 0 else "",
        layer_b=array.layer if side == 1 else "",
    )
    return Group(
        nodes_a=(),
        nodes_b=(),
        layers_a=(array.layer,) if side == 0 else (),
        layers_b=(array.layer,) if side == 1 else (),
        evidence=Evidence.GUESS,
        status=Status.ONLY_A if side == 0 else Status.ONLY_B,
        finding=finding,
    )


def _verdict(pairing: Pairing, groups: Sequence[Group]) -> tuple[Verdict, str]:
    culprits = [group.finding for group in groups if group.finding is not None]
    if culprits:
        first = culprits[0]
        where = " / ".join(dict.fromkeys(name for name in (first.layer_a, first.layer_b) if name))
        more = (
            f"; {len(culprits) - 1} more difference{'s' * (len(culprits) > 2)}" if len(culprits) > 1 else ""
        )
        return Verdict.DIFFERENT, f"different weights at {where}: {first.cause}{more}"
    count = len(pairing.pairs)
    agree = f"all {count} arrays agree" if count > 1 else "the one array agrees"
    by_text: dict[str, list[str]] = defaultdict(list)
    for pair in pairing.pairs.values():
        if pair.text:
            by_text[pair.text].append(pair.a.layer)
    stated = "; ".join(f"{list_stretch(layers)} ({text})" for text, layers in by_text.items())
    differently = f"; stored differently in B: {stated}" if stated else ""
    return Verdict.EQUAL, f"equal weights: {agree}{differently}"
