"""Alignment by values."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.align.alignment import SignalPair, release_parts
from netweave.comparison.align.chains import find_segments, only_reader
from netweave.comparison.align.sketches import SketchIndex, sketch
from netweave.comparison.layout.tensors import solve_layout
from netweave.comparison.metric import ELEMENTWISE, LOCAL_TOLERANCE, family_of, num_signals, relative_error
from netweave.comparison.result.comparison import Evidence

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    import onnx_ir as ir

    from netweave.comparison.align.alignment import Alignment
    from netweave.comparison.metric import Signals
    from netweave.comparison.prepare import Side


MAX_CANDIDATES = 8
"""Signals of A whose values are held against one of B: sketches that agree are rarely wrong, zeros aside."""

MAX_REPEATED = 1 << 16
"""Numbers of a stored tensor, at most, that is held against others: bounds and masks, which layers repeat."""

LOOKAHEAD = 16
"""So many signals of A behind the last one with a counterpart are known before the next one is chosen."""


BOUNDING = frozenset({"Clip", "Max", "Min", "Relu"})
"""Operators that change nothing where all values lie within their bounds."""

UNBOUNDED = 2e-6
"""Largest error of a value behind a bound that another net lacks, at which the bound may do nothing.

A Clip at 3 before an Erf changes 2e-5: more than rounding in one activation, less than in a convolution.
"""

ACTIVATIONS = frozenset(
    {
        "Celu", "Clip", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "PRelu", "Selu",
        "Softplus", "Softsign", "ThresholdedRelu",
    }
)  # fmt: skip
"""Operators that another net may write as several."""


def match_values(alignment: Alignment, look: Callable[[str], object] | None = None) -> None:
    """Pair all signals that hold the same values, in B's order, and the nodes that make them.

    Where several signals of A hold the same values, one made by the same kind of node and not yet taken goes
    first. A node that one net lacks, such as a product by 1, takes no signal that a later node of the other
    kind makes as well: which node is the spare one must not depend on the order of the nets. (A net that is
    not held is matched in one pass, and there it may.)

    A net that cannot be held at once is looked at once, side by side with B: what is alike lies at much the
    same place in both nets, and what was looked at long before would have to be computed again.

    Args:
        alignment: The alignment that takes the pairs.
        look: Called with each signal of A while its values are there.
    """
    known = _Known(alignment, look)
    if alignment.a.tensors.is_held:
        known.sketch_all()
        _match_same_kind(alignment, known.index)
    left: list[tuple[str, int, np.ndarray]] = []
    b = alignment.b
    for name in b.signals.names:
        if name in b.pairs or name not in b.tensors:
            continue
        x = b.tensors[name]
        wanted = sketch(x)
        if wanted is None or _is_matched(alignment, known, name, x, wanted) or known.is_complete:
            continue
        left.append((name, x.size, wanted))
    known.sketch_all()
    for name, size, wanted in left:  # by their sketches first: most of these have no counterpart
        _pair_one(alignment, name, known.index.like(size, wanted))
    for pair in list(alignment.a.pairs.values()):
        _pair_whole(alignment, pair)


def _match_same_kind(alignment: Alignment, index: SketchIndex) -> None:
    """Pair the signals that hold the same values and are made by the same kind of node."""
    b = alignment.b
    for name in b.signals.names:
        if name in b.pairs or name not in b.tensors:
            continue
        x = b.tensors[name]
        wanted = sketch(x)
        if wanted is not None:
            alike = index.like(x.size, wanted)
            _pair_one(alignment, name, (a for a in alike if _are_of_one_kind(alignment, a, name)))


def _are_of_one_kind(alignment: Alignment, name_a: str, name_b: str) -> bool:
    maker_a = alignment.a.signals.producer.get(name_a)
    maker_b = alignment.b.signals.producer.get(name_b)
    return maker_a is not None and maker_b is not None and family_of(maker_a) == family_of(maker_b)


def _pair_whole(alignment: Alignment, pair: SignalPair) -> None:
    """Pair an activation with the end of what the other net writes it as, not with a part of the same values.

    A hard sigmoid is written as a product, a sum and a clip, which may clip nothing, a Celu as the sum of its
    two halves, one of which may be zeros, and a HardSwish as a product with its input, which may be ones.
    """
    a, b = (
        side.signals.producer.get(name) for side, name in zip(alignment.sides, (pair.a, pair.b), strict=True)
    )
    if a is None or b is None or alignment.a.is_paired(a) or alignment.b.is_paired(b):
        return
    if not pair.has_equal_values or not {a.op_type, b.op_type} <= ELEMENTWISE:
        return
    whole = replace(
        pair,
        a=_idle_end(alignment.a, pair.a, a) if b.op_type in ACTIVATIONS else pair.a,
        b=_idle_end(alignment.b, pair.b, b) if a.op_type in ACTIVATIONS else pair.b,
    )
    if whole != pair:
        del alignment.a.pairs[pair.a], alignment.b.pairs[pair.b]
        alignment.pair_signals(whole)
        _pair_producers(alignment, whole)


def _idle_end(side: Side, name: str, maker: ir.Node) -> str:
    """Return the last signal that bounds, sums and products make of one where they change nothing."""
    end, reader = name, only_reader(side.signals, maker)
    while reader is not None and _may_be_idle(reader) and not side.is_paired(reader):
        made = side.signals.outputs_of(reader)
        if len(made) != 1 or made[0] in side.pairs:
            break
        error = relative_error(side.tensors[name], side.tensors[made[0]])
        if error > (0 if reader.op_type in BOUNDING else LOCAL_TOLERANCE):
            break
        end, reader = made[0], only_reader(side.signals, reader)
    return end


def _may_be_idle(node: ir.Node) -> bool:
    return node.op_type in BOUNDING or (node.op_type in {"Add", "Mul"} and num_signals(node) > 1)


@dataclass(slots=True)
class _Known:
    """A's signals, sketched in their order as far as they were needed so far.

    Attributes:
        alignment: The alignment.
        look: Called with each of them while its values are there.
        index: Their sketches.
        positions: How many of them there are up to each, by name.
        bytes_up_to: Their bytes up to each.
        num_matched: How many there are up to the last one that got a counterpart.
    """

    alignment: Alignment
    look: Callable[[str], object] | None
    index: SketchIndex = field(default_factory=SketchIndex)
    positions: dict[str, int] = field(default_factory=dict)
    bytes_up_to: list[int] = field(default_factory=lambda: [0])
    num_matched: int = 0
    _names: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self._names = self.alignment.a.signals.names

    @property
    def is_complete(self) -> bool:
        """True if all are sketched."""
        return len(self.positions) == len(self._names)

    def sketch_all(self) -> None:
        """Sketch the rest."""
        while self._sketch_next(is_ahead=False):
            pass

    def reach_lookahead(self) -> None:
        """Sketch as many signals as there should be behind the last one with a counterpart."""
        while len(self.positions) < self.num_matched + LOOKAHEAD and self.go_on():
            pass

    def go_on(self) -> bool:
        """Sketch one more; say whether there is one, not too far ahead to have it and B's there at once."""
        share = self.alignment.a.tensors.working_bytes
        ahead = self.bytes_up_to[-1] - self.bytes_up_to[self.num_matched]
        return (share is None or ahead < share) and self._sketch_next(is_ahead=True)

    def matched(self, name: str) -> None:
        """Note that a signal got a counterpart."""
        self.num_matched = max(self.num_matched, self.positions.get(name, 0))

    def _sketch_next(self, *, is_ahead: bool) -> bool:
        if self.is_complete:
            return False
        name = self._names[len(self.positions)]
        tensors = self.alignment.a.tensors
        x = tensors.ahead(name) if is_ahead else tensors[name]
        self.index.add(name, x)
        self.positions[name] = len(self.positions) + 1
        self.bytes_up_to.append(self.bytes_up_to[-1] + x.nbytes)
        if self.look is not None:
            self.look(name)
        return True


def _is_matched(alignment: Alignment, known: _Known, name: str, x: np.ndarray, wanted: np.ndarray) -> bool:
    """Return whether a signal of B finds a counterpart among those of A that are near."""
    known.reach_lookahead()
    tried: set[str] = set()
    while True:
        alike = [each for each in known.index.like(x.size, wanted) if each not in tried]
        match = _pair_one(alignment, name, alike)
        if match is not None:
            known.matched(match)
            return True
        tried.update(alike)
        if not known.go_on():
            return False


def _pair_one(alignment: Alignment, name_b: str, alike: Iterable[str]) -> str | None:
    """Pair a signal of B with the likeliest of A that holds its values, and return it; None if none does."""
    a, b = alignment.a, alignment.b
    candidates = [name for name in alike if name not in a.pairs]
    candidates.sort(key=lambda name: _unlikeness(alignment, name, name_b))
    for name_a in candidates[:MAX_CANDIDATES]:
        solved = solve_layout(
            a.tensors[name_a],
            b.tensors[name_b],
            tolerance=LOCAL_TOLERANCE,
            hints=alignment.hints(),
            orientation=alignment.orientation,
        )
        if solved is not None:
            pair = SignalPair(name_a, name_b, Evidence.VALUES, solved[0], solved[1])
            alignment.pair_signals(pair)
            _pair_producers(alignment, pair)
            return name_a
    return None


def _unlikeness(alignment: Alignment, name_a: str, name_b: str) -> tuple[bool, bool, int]:
    """Return what orders signals of A with B's values, the likeliest first: same kind, same input."""
    a, b = alignment.a.signals, alignment.b.signals
    producer_a, producer_b = a.producer.get(name_a), b.producer.get(name_b)
    if producer_a is None or producer_b is None:
        return True, True, 0
    sources = [alignment.b.pairs[s].a for s in b.inputs_of(producer_b) if s in alignment.b.pairs]
    follows = any(s in a.inputs_of(producer_a) for s in sources)
    return family_of(producer_a) != family_of(producer_b), not follows, a.position[id(producer_a)]


def _pair_producers(alignment: Alignment, pair: SignalPair) -> None:
    producer_a = alignment.a.signals.producer.get(pair.a)
    producer_b = alignment.b.signals.producer.get(pair.b)
    if producer_a is not None and producer_b is not None and family_of(producer_a) == family_of(producer_b):
        alignment.pair_nodes(producer_a, producer_b, Evidence.VALUES)


# A pair of nodes is a group; so is a filter with its scalings where the two nets cut them differently. What
# is left forms regions, and a region of A joins the region of B at the same place. A region with nothing at
# its place is only in one net.


@dataclass(slots=True, eq=False)
class Draft:
    """A group before it is judged.

    Attributes:
        nodes_a: A's nodes, in topological order.
        nodes_b: B's nodes, in topological order.
        evidence: Why they are taken for each other.
        outputs: Pairs (signal of A, signal of B) that the group makes and that should agree.
    """

    nodes_a: list[ir.Node]
    nodes_b: list[ir.Node]
    evidence: Evidence
    outputs: list[tuple[str, str]] = field(default_factory=list)

    @property
    def is_pair(self) -> bool:
        """True if both nets have nodes in it."""
        return bool(self.nodes_a) and bool(self.nodes_b)

    @property
    def tolerance(self) -> float:
        """Largest error that counts as rounding: less where an activation is bounded in one net only."""
        a, b = (Counter(node.op_type for node in nodes) for nodes in (self.nodes_a, self.nodes_b))
        is_activation = ELEMENTWISE.issuperset({*a, *b})
        return UNBOUNDED if is_activation and a != b and _unbounded(a) == _unbounded(b) else LOCAL_TOLERANCE

    def nodes_of(self, side: Side) -> list[ir.Node]:
        """Return the nodes of one net."""
        return self.nodes_a if side.is_a else self.nodes_b


def _unbounded(operators: Counter[str]) -> Counter[str]:
    return Counter({op: count for op, count in operators.items() if op not in BOUNDING})


def build_groups(alignment: Alignment) -> list[Draft]:
    """Return the groups in A's order; what is only in B stands after what comes before it."""
    release_parts(alignment)
    return _Builder(alignment).build()


class _Builder:
    def __init__(self, alignment: Alignment) -> None:
        self._alignment = alignment
        self._owner: dict[int, Draft] = {}  # by ``id`` of the node, of either net
        self._drafts: list[Draft] = []
        self._computations = _Computations()

    def build(self) -> list[Draft]:
        for nodes_a, nodes_b in find_segments(self._alignment):
            self._new(nodes_a, nodes_b, self._evidence(nodes_a))
        self._take_pairs()
        self._take_duplicates()
        for draft in list(self._drafts):
            if draft.is_pair:
                self._absorb(draft)
        self._join(*map(self._regions, self._alignment.sides))
        for draft in self._drafts:
            for side in self._alignment.sides:
                draft.nodes_of(side).sort(key=side.signals.place_of)
            draft.outputs = self._outputs(draft)
        return self._in_order()

    def _take_pairs(self) -> None:
        """Make a group of every pair of nodes that no chain holds."""
        for node in self._alignment.a.signals.nodes:
            partner = self._alignment.a.partners.get(id(node))
            if partner is None or not self._is_free(node) or not self._is_free(partner):
                continue
            evidence = self._alignment.evidence[id(node)]
            if not self._is_part(node, partner, evidence) and not self._ends_elsewhere(node, partner):
                self._new([node], [partner], evidence)

    def _take_duplicates(self) -> None:
        """Take free nodes into the group of a node that computes the same, as one dequantiser per reader."""
        for side in self._alignment.sides:
            number_of = self._computations.number_of
            free = list(filter(self._is_free, side.signals.nodes))
            kinds = {node.op_type for node in free}
            owned = [n for n in side.signals.nodes if n.op_type in kinds and not self._is_free(n)]
            drafts = {number_of(node): self._owner[id(node)] for node in reversed(owned)}
            for node in free:
                if (draft := drafts.get(number_of(node))) is not None and draft.is_pair:
                    draft.nodes_of(side).append(node)
                    self._owner[id(node)] = draft

    def _evidence(self, nodes_a: list[ir.Node]) -> Evidence:
        """Return the strongest evidence that any node of a segment has."""
        evidence = self._alignment.evidence
        known = [evidence[id(node)] for node in nodes_a if id(node) in evidence]
        return min(known, key=list(Evidence).index, default=Evidence.STRUCTURE)

    def _new(self, a: list[ir.Node], b: list[ir.Node], evidence: Evidence) -> Draft:
        draft = Draft(a, b, evidence)
        self._drafts.append(draft)
        for node in (*a, *b):
            self._owner[id(node)] = draft
        return draft

    def _is_free(self, node: ir.Node) -> bool:
        return id(node) not in self._owner

    def _is_part(self, a: ir.Node, b: ir.Node, evidence: Evidence) -> bool:
        """Return whether two unlike activations were matched, of which one is part of a larger one."""
        if evidence is Evidence.VALUES or a.op_type == b.op_type or not {a.op_type, b.op_type} <= ELEMENTWISE:
            return False
        return any(
            other.op_type in ELEMENTWISE and not side.is_paired(other) and self._is_free(other)
            for side, node in zip(self._alignment.sides, (a, b), strict=True)
            for other in _neighbours(side.signals, node)
        )

    def _ends_elsewhere(self, a: ir.Node, b: ir.Node) -> bool:
        """Return whether one of two nodes makes what a free node behind the other one makes."""
        for side, node, other_side, other in zip(
            self._alignment.sides, (a, b), self._alignment.sides[::-1], (b, a), strict=True
        ):
            made = other_side.signals.outputs_of(other)
            for name in side.signals.outputs_of(node):
                pair = side.pairs.get(name)
                target = (
                    None if pair is None or not pair.has_equal_values else pair.b if side.is_a else pair.a
                )
                if target is None or target in made:
                    continue
                maker = other_side.signals.producer.get(target)
                if maker is not None and self._is_free(maker) and not other_side.is_paired(maker):
                    return not set(made).isdisjoint(other_side.signals.inputs_of(maker))
        return False

    def _absorb(self, draft: Draft) -> None:
        """Take free nodes that only lead up to a pair into its group.

        Before scalings these are scalings, before all others padding; and where the values of a pair agree,
        whatever there is, but for bounds that change them.
        """
        is_affine = family_of(draft.nodes_a[0]) == "affine"
        is_bounded = draft.nodes_a[-1].op_type == draft.nodes_b[-1].op_type and self._error(draft) > UNBOUNDED
        has_equal_values = self._has_equal_values(draft)
        for side in self._alignment.sides:
            if has_equal_values:
                self._absorb_sources(side, draft, lambda node: not (is_bounded and node.op_type in BOUNDING))
            elif is_affine:
                self._absorb_sources(side, draft, lambda node: family_of(node) == "affine")
            else:
                self._absorb_sources(side, draft, lambda node: node.op_type == "Pad")

    def _has_equal_values(self, draft: Draft) -> bool:
        names = self._alignment.a.signals.outputs_of(draft.nodes_a[-1])
        return any(map(self._alignment.has_equal_values, names))

    def _error(self, draft: Draft) -> float:
        """Return the largest error of the values that a group makes in both nets."""
        pairs = self._alignment.a.pairs
        names = self._alignment.a.signals.outputs_of(draft.nodes_a[-1])
        return max((pairs[name].error or 0.0 for name in names if name in pairs), default=0.0)

    def _absorb_sources(self, side: Side, draft: Draft, wanted: Callable[[ir.Node], bool]) -> None:
        signals = side.signals
        waiting = list(draft.nodes_of(side))
        while waiting:
            for signal in signals.inputs_of(waiting.pop()):
                producer = signals.producer.get(signal)
                if producer is None or signal in side.pairs or signal in signals.outputs:
                    continue
                owned = all(self._owner.get(id(n)) is draft for n in signals.consumers[signal])
                if owned and self._is_free(producer) and wanted(producer):
                    draft.nodes_of(side).append(producer)
                    self._owner[id(producer)] = draft
                    waiting.append(producer)

    def _regions(self, side: Side) -> list[list[ir.Node]]:
        """Return the free nodes as regions connected by signals that have no partner of equal values."""
        signals = side.signals
        free = [node for node in signals.nodes if self._is_free(node)]
        region: dict[int, list[ir.Node]] = {}
        for node in free:
            mine = [node]
            for signal in signals.inputs_of(node):
                producer = signals.producer.get(signal)
                pair = side.pairs.get(signal)
                if producer is None or id(producer) not in region or (pair and pair.has_equal_values):
                    continue
                other = region[id(producer)]
                if other is not mine:
                    other.extend(mine)
                    for moved in mine:
                        region[id(moved)] = other
                    mine = other
            region[id(node)] = mine
        unique = {id(nodes): nodes for nodes in region.values()}
        return self._with_duplicates(list(unique.values()))

    def _with_duplicates(self, regions: list[list[ir.Node]]) -> list[list[ir.Node]]:
        """Return regions, those that compute the same as one: a mask that each layer makes for itself."""
        alike: dict[Hashable, list[ir.Node]] = defaultdict(list)
        for nodes in regions:
            key = frozenset(map(self._computations.number_of, nodes)) if len(regions) > 1 else None
            alike[key] += nodes
        return list(alike.values())

    def _join(self, regions_a: list[list[ir.Node]], regions_b: list[list[ir.Node]]) -> None:
        places: dict[Hashable, int] = {}
        for index, nodes in enumerate(regions_b):
            for key in self._places(self._alignment.b, nodes):
                places.setdefault(key, index)
        joined: dict[int, list[ir.Node]] = defaultdict(list)
        alone: list[list[ir.Node]] = []
        for nodes in regions_a:
            hits = [places[key] for key in self._places(self._alignment.a, nodes) if key in places]
            if hits:
                joined[hits[0]] += nodes
            else:
                alone.append(nodes)
        for index, nodes in enumerate(regions_b):
            self._new(joined.get(index, []), nodes, Evidence.STRUCTURE if index in joined else Evidence.GUESS)
        for nodes in alone:
            self._new(nodes, [], Evidence.GUESS)

    def _places(self, side: Side, nodes: list[ir.Node]) -> list[Hashable]:
        """Return keys, the same for both nets, of what a region gives its values to."""
        signals = side.signals
        inside = {id(node) for node in nodes}
        keys: list[Hashable] = []
        for node in nodes:
            for name in signals.outputs_of(node):
                pair = side.pairs.get(name)
                if pair is not None:
                    keys.append(("signal", pair.a))
                for reader in signals.consumers.get(name, ()):
                    draft = self._owner.get(id(reader))
                    if id(reader) not in inside and draft is not None:
                        keys.append(("reader", id(draft)))
                if name in signals.outputs:
                    keys.append(("output", signals.outputs.index(name)))
        return keys

    def _outputs(self, draft: Draft) -> list[tuple[str, str]]:
        """Return the pairs of signals that leave the group, or end in it."""
        a, b = self._alignment.sides
        leaving_a, leaving_b = a.signals.leaving(draft.nodes_a), b.signals.leaving(draft.nodes_b)
        known = [
            (name, a.pairs[name].b) for name in leaving_a if name in a.pairs and a.pairs[name].b in leaving_b
        ]
        if known and len(known) == len(leaving_a):
            return known
        rest_a = [name for name in leaving_a if name not in {a for a, _ in known}]
        rest_b = [name for name in leaving_b if name not in {b for _, b in known}]
        return known + list(zip(rest_a, rest_b, strict=False))

    def _in_order(self) -> list[Draft]:
        a, b = self._alignment.a.signals, self._alignment.b.signals
        with_a = [draft for draft in self._drafts if draft.nodes_a]
        with_a.sort(key=lambda draft: a.place_of(draft.nodes_a[0]))
        place_b = {id(node): index for index, draft in enumerate(with_a) for node in draft.nodes_b}
        only_b = [draft for draft in self._drafts if not draft.nodes_a]
        keyed: list[tuple[int, int, Draft]] = [(index, -1, draft) for index, draft in enumerate(with_a)]
        for draft in only_b:
            start = b.place_of(draft.nodes_b[0])
            before = [place_b[id(n)] for n in b.nodes[:start] if id(n) in place_b]
            keyed.append((max(before, default=-1), start, draft))
        return [draft for _, _, draft in sorted(keyed, key=lambda row: row[:2])]


class _Computations:
    """Numbers for what nodes of one net compute, the same for nodes that compute the same."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._by_node: dict[int, int] = {}

    def number_of(self, node: ir.Node) -> int:
        """Return the number of a node."""
        waiting = [node]
        while waiting:
            last = waiting[-1]
            makers = [value.producer() for value in last.inputs if value is not None]
            unknown = [maker for maker in makers if maker is not None and id(maker) not in self._by_node]
            if unknown:
                waiting += unknown
                continue
            settings = sorted((name, _setting(attribute)) for name, attribute in last.attributes.items())
            key = last.domain, last.op_type, tuple(map(self._read, last.inputs)), tuple(settings)
            self._by_node[id(last)] = self._numbers.setdefault(key, len(self._numbers))
            waiting.pop()
        return self._by_node[id(node)]

    def _read(self, value: ir.Value | None) -> Hashable:
        """Return what two values have in common if they are the same: their makers, or what is stored."""
        if value is None:
            return None
        maker, stored = value.producer(), value.const_value
        if maker is not None:
            return self._by_node[id(maker)], value.index()
        if stored is not None and stored.size <= MAX_REPEATED:
            return str(stored.dtype), tuple(stored.shape), hash(stored.numpy().tobytes())
        return id(value)


def _setting(attribute: ir.Attr) -> str:
    """Return what two attributes have in common if they are the same; tensors and bodies are their own."""
    plain = isinstance(attribute.value, int | float | str | tuple)
    return str(attribute.value if plain else id(attribute.value))


def _neighbours(signals: Signals, node: ir.Node) -> Iterator[ir.Node]:
    """Yield the nodes that make what a node reads, and those that read what it makes."""
    yield from (signals.producer[s] for s in signals.inputs_of(node) if s in signals.producer)
    yield from signals.readers_of(node)
