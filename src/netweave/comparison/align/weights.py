"""Alignment by weights."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.comparison.align.value_matching import build_groups
from netweave.comparison.metric import constants_of, family_of, is_constant
from netweave.graph import attributes_of, parameter_key
from netweave.graph.parameters import source_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from netweave.comparison.align.alignment import Alignment
    from netweave.comparison.metric import Signals
    from netweave.comparison.prepare import Side


# A fingerprint of a filter bank is the ratio of its L1 to its L2 norm per output channel, sorted: it does
# not change with layout, channel order or a scale per channel (a folded BatchNorm), and one changed weight
# moves one entry of it only.

# Folding a BatchNorm in float32 moves a fingerprint by 1e-7, storage in half precision by 1e-5 (3e-5 for
# filters of 27 weights, which are not matched). Above lie unrelated filters of one shape: of 24 random
# banks of 512 x 512, the nearest two differ by 1.6e-4. bfloat16 moves it by up to 3e-4 and 8 bits by up to
# 1e-3, so that weights stored so cannot be told from unrelated ones by this number.
SAME_FINGERPRINT = 2e-5
"""Largest median difference of two fingerprints of the same weights, relative to their mean."""

# Of 270 pairs with up to 8 of 64 filters replaced, one entry misses 5 and three miss none. Nine leave a
# margin; the candidates to be looked at grow with the entries (nine: an eighth of all pairs of 150 random
# banks).
NUM_ENTRIES = 9
"""Entries of a fingerprint that candidates are looked for by."""


def filters_of(node: ir.Node) -> np.ndarray | None:
    """Return a node's main weights as (output channel, input channel, space ...); None if it has none.

    For a grouped convolution the input channels are those of one group.
    """
    weight = _main_weight(node)
    if weight is None or weight.const_value is None:
        return None
    return outputs_first(node, weight.const_value.numpy())


def filter_shape(node: ir.Node) -> tuple[int, ...] | None:
    """Return the shape that ``filters_of`` would have, without reading the weights."""
    weight = _main_weight(node)
    if weight is None or weight.const_value is None:
        return None
    shape = tuple(int(size) for size in weight.const_value.shape.numpy())
    return outputs_first(node, np.broadcast_to(np.float32(0), shape)).shape


def stand_in(a: ir.Node, b: ir.Node) -> bool:
    """Return whether a node may stand for another.

    Both are of one kind, or one is a dense layer and the other a convolution with its weights.

    A convolution whose window is all that it reads is a dense layer.
    """
    if family_of(a) == family_of(b):
        return True
    shapes = [filter_shape(node) for node in (a, b) if family_of(node) in {"Conv", "dense"}]
    shape_a, shape_b = shapes if len(shapes) == 2 else (None, None)
    return shape_a is not None and shape_b is not None and as_dense(shape_a) == as_dense(shape_b)


def as_dense(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the shape of filters as those of a dense layer.

    >>> as_dense((10, 8, 3, 3))
    (10, 72)
    """
    return shape[0], prod(shape[1:])


def _main_weight(node: ir.Node) -> ir.Value | None:
    if node.domain or node.op_type not in {"Conv", "ConvTranspose", "Gemm", "MatMul"}:
        return None
    weight = node.inputs[1] if len(node.inputs) > 1 else None
    if weight is not None and is_constant(weight) and weight.shape is not None and len(weight.shape) >= 2:
        return weight
    return None


def outputs_first(node: ir.Node, weight: np.ndarray) -> np.ndarray:
    """Return weights as a node stores them as (output channel, input channel, space ...)."""
    if node.op_type == "ConvTranspose":
        return weight.swapaxes(0, 1)
    if node.op_type == "MatMul":
        return np.moveaxis(weight, -1, 0)
    if node.op_type == "Gemm":
        transposed = node.attributes.get("transB")
        return weight if transposed is not None and transposed.as_int() else weight.T
    return weight


def fingerprint(filters: np.ndarray) -> np.ndarray:
    """Return the sorted ratios of L1 to L2 norm, one per output channel; a dead channel counts 0."""
    rows = filters.reshape(len(filters), -1)
    if rows.dtype.kind == "V":  # bfloat16 and the other types of ml_dtypes, which einsum does not know
        rows = rows.astype(np.float32)
    squares = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    sums = np.abs(rows).sum(axis=1)
    return np.sort(np.where(squares > 0, sums / np.maximum(squares, 1e-30), 0.0))


def match_weights(a: Sequence[ir.Node], b: Sequence[ir.Node]) -> list[tuple[ir.Node, ir.Node]]:
    """Return pairs of nodes that hold the same weights, each node in one pair at most.

    A pair must be the best for both sides and clearly better than the second; where several nodes hold the
    same weights (shared ones), they are paired in order if they are as many on both sides.
    """
    buckets_a, buckets_b = _buckets(a), _buckets(b)
    pairs: list[tuple[ir.Node, ir.Node]] = []
    for key in buckets_a.keys() & buckets_b.keys():
        pairs += _match_bucket(buckets_a[key], buckets_b[key])
    place = {id(node): index for index, node in enumerate(a)}
    return sorted(pairs, key=lambda pair: place[id(pair[0])])


def _buckets(nodes: Sequence[ir.Node]) -> dict[tuple[int, int], list[tuple[ir.Node, np.ndarray]]]:
    buckets: dict[tuple[int, int], list[tuple[ir.Node, np.ndarray]]] = defaultdict(list)
    for node in nodes:
        filters = filters_of(node)
        if filters is not None and filters.size > 1:
            buckets[len(filters), filters.size].append((node, fingerprint(filters)))
    return buckets


def _match_bucket(
    a: list[tuple[ir.Node, np.ndarray]], b: list[tuple[ir.Node, np.ndarray]]
) -> list[tuple[ir.Node, ir.Node]]:
    marks_a, members_a = _distinct([mark for _, mark in a])
    marks_b, members_b = _distinct([mark for _, mark in b])
    typical = float(np.abs(marks_a).mean()) + 1e-30
    i, j = _near(marks_a, marks_b, 4 * SAME_FINGERPRINT * typical)
    distance = np.median(np.abs(marks_a[i] - marks_b[j]), axis=1) / typical
    partners, rivals = _nearest(i, j, distance, members_b), _nearest(j, i, distance, members_a)
    pairs = []
    for row, places_a in enumerate(members_a):
        candidates = partners.get(row)
        competing = rivals.get(candidates[0]) if candidates else None
        if candidates is None or competing is None or len(candidates[1]) != len(competing[1]):
            continue
        ranks = {place: rank for rank, place in enumerate(competing[1])}
        pairs += [(a[p][0], b[candidates[1][ranks[p]]][0]) for p in places_a if p in ranks]
    return pairs


def _distinct(marks: Sequence[np.ndarray]) -> tuple[np.ndarray, list[list[int]]]:
    """Return the fingerprints that differ, as rows, and the places at which each of them is."""
    places: dict[bytes, list[int]] = defaultdict(list)
    for place, mark in enumerate(marks):
        places[mark.tobytes()].append(place)
    return np.stack([marks[equal[0]] for equal in places.values()]), list(places.values())


def _near(a: np.ndarray, b: np.ndarray, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """Return candidates (row of a, row of b): near at one of a few entries at least.

    Rows whose median difference is below ``reach`` are near at half of their entries. So not all rows have to
    be compared with all: the entries are sorted and searched.
    """
    keys = []
    for entry in np.unique(np.linspace(0, a.shape[1] - 1, NUM_ENTRIES).astype(np.int64)):
        order = np.argsort(b[:, entry], kind="stable")
        column = b[order, entry]
        low = np.searchsorted(column, a[:, entry] - reach, side="left")
        count = np.searchsorted(column, a[:, entry] + reach, side="right") - low
        rows = np.repeat(np.arange(len(a)), count)
        steps = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
        keys.append(rows * len(b) + order[np.repeat(low, count) + steps])
    i, j = np.divmod(np.unique(np.concatenate(keys)), len(b))
    return i, j


def _nearest(
    rows: np.ndarray, others: np.ndarray, distance: np.ndarray, members: Sequence[list[int]]
) -> dict[int, tuple[int, list[int]]]:
    """Return, by row, the nearest other row, and the places of all that are as good as the same, in order."""
    order = np.argsort(rows, kind="stable")
    rows, others, distance = rows[order], others[order], distance[order]
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    nearest = {}
    for start, end in zip(starts, [*starts[1:], len(rows)][: len(starts)], strict=True):
        mine, theirs = distance[start:end], others[start:end]
        least = float(mine.min())
        if least <= SAME_FINGERPRINT:
            same = theirs[mine <= max(4 * least, SAME_FINGERPRINT / 20)]
            nearest[int(rows[start])] = int(same[0]), sorted(p for other in same for p in members[other])
    return nearest


@dataclass(frozen=True, slots=True)
class Copied:
    """Arrays that one net was given.

    Attributes:
        count: Number of arrays.
        filled: Keys of the parameters that they are.
        reordered: Names of the dense nodes whose columns were put in another order.
    """

    count: int
    filled: frozenset[str]
    reordered: frozenset[str] = frozenset()


FILTERED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
INVERSES = {"Sub": "Add", "Div": "Mul"}
"""Operators that store the same quantity as another: the one in the place of the other is a difference."""

SCALING = frozenset({"BatchNormalization", "Mul", "Add"})


def copy_arrays(
    alignment: Alignment,
    *,
    target: Side,
    orders: Mapping[str, np.ndarray] | None = None,
    missing: AbstractSet[str] | None = None,
    given: AbstractSet[str] | None = None,
    drawn: AbstractSet[str] = frozenset(),
) -> Copied:
    """Copy stored arrays from one net to the other, group by group, in place.

    Where both nets store the same quantities, arrays are copied as they are: an epsilon, a scale or a slope
    that differs must stay a difference. Where one side has folded a BatchNorm that the other has, the folded
    filters and bias are computed. Constants that no stored array stands behind are settings: they stay.

    Args:
        alignment: Pairs found by structure.
        target: The side that is given arrays, one of the alignment's.
        orders: For dense nodes that read what is flattened in another order, by the name of the node that is
            given weights: for each of its inputs the input of the other node.
        missing: Keys of the parameters to fill; what the others hold was loaded, and stays. None: fill all
            of them so that the layers compute the same, with settings that differ made up for in the weights.
        given: Keys of the other net's parameters that may be copied; None: all.
        drawn: Keys of the other net's parameters whose values are drawn: a gamma or beta that is fixed in the
            net that is given weights is so there, too.
    """
    source = alignment.other(target)
    copy = _Copy(orders or {}, missing, given, drawn)
    if missing is not None:  # nothing is folded where both nets have as many normalisations
        num_norms, num_in_target = count_norms(source.signals), count_norms(target.signals)
        copy.may_fold, copy.may_neutralise = num_norms > num_in_target, num_norms < num_in_target
    for draft in build_groups(alignment):
        copy.group(_without_pads(draft.nodes_of(source)), _without_pads(draft.nodes_of(target)))
    parameters = target.graph.parameters
    filled = set(parameters) if missing is None else copy.filled
    parameters.update(
        {key: replace(p, loaded=True, initial=False) for key, p in parameters.items() if key in filled}
    )
    return Copied(copy.count, frozenset(copy.filled), frozenset(orders or ()))


def count_norms(signals: Signals) -> int:
    """Return how many batch normalisations a net has."""
    return sum(node.op_type == "BatchNormalization" for node in signals.nodes)


def are_scaled_alike(source: list[ir.Node], target: list[ir.Node]) -> bool:
    """Return whether both are the same filter and BatchNorm, with or without scale and shift."""
    heads = [[node.op_type for node in nodes[:2]] for nodes in (source, target)]
    return (
        heads[0] == heads[1]
        and source[0].op_type in FILTERED
        and heads[0][1:] == ["BatchNormalization"]
        and {node.op_type for node in (*source[2:], *target[2:])} <= SCALING
        and all(b.outputs[0] in a.inputs for nodes in (source, target) for b, a in pairwise(nodes))
    )


def is_of_width(node: ir.Node, channels: int) -> bool:
    """Return whether the operands of a node have one number for each channel, or one for all."""
    values = [v for i, v in constants_of(node).items() if node.op_type not in FILTERED or i != 1]
    return all(v.const_value is None or v.const_value.size in {1, channels} for v in values)


def is_setting(value: ir.Value) -> bool:
    """Return whether a constant is part of the net's definition, and not made of stored arrays."""
    return not source_keys(value)


@dataclass(slots=True)
class _Copy:
    """One run of ``copy_arrays``.

    Attributes:
        orders: As in ``copy_arrays``.
        missing: As in ``copy_arrays``.
        given: As in ``copy_arrays``.
        drawn: As in ``copy_arrays``.
        may_fold: Whether a filter of the target may hold the normalisation behind one of the source.
        may_neutralise: Whether a normalisation of the target may do nothing, since the source has folded it.
        filled: Keys of the parameters that were given values.
        count: Number of arrays that were given values.
    """

    orders: Mapping[str, np.ndarray]
    missing: AbstractSet[str] | None
    given: AbstractSet[str] | None
    drawn: AbstractSet[str] = frozenset()
    may_fold: bool = True
    may_neutralise: bool = True
    filled: set[str] = field(default_factory=set)
    count: int = 0

    def group(self, source: list[ir.Node], target: list[ir.Node]) -> None:
        """Copy the arrays of one group to its counterpart."""
        if not source or not target or not self._may_copy(source):
            return
        op_types = [[node.op_type for node in nodes] for nodes in (source, target)]
        kinds = [[INVERSES.get(name, name) for name in names] for names in op_types]
        if kinds[0] == kinds[1] and self.missing is not None:
            self._one_to_one(source, target)
        elif are_scaled_alike(source, target):
            self._copy(source[0], target[0])
            self._scaling(source[1:], target[1:], bias=self._lost_bias(source[0], target[0]))
        elif op_types[0] == op_types[1]:
            self._one_to_one(source, target)
        elif source[0].op_type in FILTERED and stand_in(source[0], target[0]):
            self._fold_into(source, target)
        elif set(op_types[0] + op_types[1]) <= SCALING and source[0].op_type == target[0].op_type:
            self._scaling(source, target)

    def _may_copy(self, source: Sequence[ir.Node]) -> bool:
        values = [value for node in source for value in constants_of(node).values()]
        return self.given is None or all(key in self.given for value in values for key in source_keys(value))

    def _is_open(self, value: ir.Value | None) -> bool:
        """Return whether a value waits for an array."""
        keys = () if value is None else source_keys(value)
        return bool(keys) and (self.missing is None or not self.missing.isdisjoint(keys))

    def _give(self, value: ir.Value | None, array: np.ndarray | None) -> None:
        if value is not None and self._is_open(value) and set_values(value, array):
            self._note(value)

    def _note(self, value: ir.Value) -> None:
        self.filled.update(source_keys(value))
        self.count += 1

    def _give_filters(self, node: ir.Node, filters: np.ndarray | None) -> bool:
        weight = constants_of(node).get(1)
        if weight is None or not self._is_open(weight) or not set_filters(node, filters):
            return False
        self._note(weight)
        return True

    def _one_to_one(self, source: Sequence[ir.Node], target: Sequence[ir.Node]) -> None:
        lost: np.ndarray | float = 0.0
        for s, t in zip(source, target, strict=True):
            self._fix_drawn(s, t)
            self._copy(s, t)
            mean = constants_of(t).get(3) if t.op_type == "BatchNormalization" else None
            if mean is not None and mean.const_value is not None and np.any(lost):
                self._give(mean, mean.const_value.numpy() - lost)
            lost = self._lost_bias(s, t) if s.op_type in FILTERED else 0.0

    def _fix_drawn(self, source: ir.Node, target: ir.Node) -> None:
        """Give a drawn gamma and beta, in place, the values that are fixed in the other net."""
        if source.op_type != "BatchNormalization" or target.op_type != source.op_type:
            return
        own, other = constants_of(source), constants_of(target)
        for index in (1, 2):
            value, fixed = own.get(index), other.get(index)
            if value is None or fixed is None or fixed.const_value is None or not is_setting(fixed):
                continue
            self._set_drawn(value, fixed.const_value.numpy())

    def _set_drawn(self, value: ir.Value, array: np.ndarray) -> None:
        """Give a value of the source other numbers, if it was drawn and nobody gave it any."""
        if any(key in self.drawn for key in source_keys(value)):
            set_values(value, array)

    def _copy(self, source: ir.Node, target: ir.Node) -> None:
        given, taken = constants_of(source), constants_of(target)
        if source.op_type in FILTERED and 1 in given and 1 in taken:
            self._give_filters(target, self._ordered(filters_of(source), target))
            if 2 in taken and 2 not in given and taken[2].const_value is not None:
                self._give(taken[2], np.zeros(taken[2].const_value.size))
        for index, value in given.items():
            if index in taken and not (index == 1 and source.op_type in FILTERED):
                self._give(taken[index], None if value.const_value is None else value.const_value.numpy())

    def _lost_bias(self, source: ir.Node, target: ir.Node) -> np.ndarray | float:
        """Return the bias of a filter that has no place in another."""
        bias = constants_of(source).get(2)
        taken = constants_of(target).get(2)
        if bias is None or bias.const_value is None or (taken is not None and not is_setting(taken)):
            return 0.0
        return bias.const_value.numpy().astype(np.float64)

    def _ordered(self, filters: np.ndarray | None, target: ir.Node) -> np.ndarray | None:
        order = self.orders.get(str(target.name))
        return filters if filters is None or order is None else filters.reshape(len(filters), -1)[:, order]

    def _fold_into(self, source: list[ir.Node], target: list[ir.Node]) -> None:
        """Give a chain of filters and scalings what another chain computes."""
        filters = self._ordered(filters_of(source[0]), target[0])
        if filters is None or not all(is_of_width(node, len(filters)) for node in source):
            return
        scale, shift = np.ones(len(filters)), np.zeros(len(filters))
        for node in source:
            if self.missing is not None and _scales_by_setting(node):
                continue  # weights that make up for a setting would hide it
            if node.op_type == "BatchNormalization" and not self.may_fold and not _has_norm(target):
                continue
            factor, addend = _affine_of(node, len(filters))
            scale, shift = scale * factor, shift * factor + addend
        if not self._give_filters(target[0], filters * scale.reshape(-1, *[1] * (filters.ndim - 1))):
            return
        if _has_norm(target) and not self.may_neutralise and not _has_norm(source):
            return
        slots = [slot for node in target for slot in self._neutralise(node, len(filters))]
        if slots:
            self._give(slots[-1], shift)
        elif target[-1].op_type == "BatchNormalization":
            self._give(constants_of(target[-1]).get(3), -shift)  # without beta, the mean holds the bias

    def _neutralise(self, node: ir.Node, channels: int) -> list[ir.Value]:
        """Make a node do nothing, and return the values that can hold a bias per channel."""
        constants = {i: v for i, v in constants_of(node).items() if v.const_value is not None}
        if node.op_type == "BatchNormalization":
            epsilon = attributes_of(node).get("epsilon", 1e-5)
            # the variance makes up for epsilon, since Caffe's BatchNorm has no gamma to set
            for index, fill in ((1, 1.0), (2, 0.0), (3, 0.0), (4, max(1.0 - epsilon, 0.0))):
                self._give(constants.get(index), np.full(channels, fill))
            return [constants[2]] if 2 in constants and self._is_open(constants[2]) else []
        if node.op_type in FILTERED:
            bias = constants.get(2)
            self._give(bias, np.zeros(channels))
            return [bias] if bias is not None and self._is_open(bias) else []
        fill = {"Mul": 1.0, "Div": 1.0, "Add": 0.0, "Sub": 0.0}.get(node.op_type)
        for value in constants.values() if fill is not None else ():
            self._give(value, np.full(value.const_value.size, fill))  # type: ignore[union-attr]  # constants_of finds stored values only
        is_bias = node.op_type == "Add"
        return [v for v in constants.values() if is_bias and self._is_open(v) and _size(v) == channels]

    def _scaling(
        self, source: list[ir.Node], target: list[ir.Node], *, bias: np.ndarray | float = 0.0
    ) -> None:
        """Give a BatchNorm, with its scale and shift behind it or not, the quantities of another one.

        Caffe writes BatchNorm and Scale where others have one layer; the statistics are the same, but for a
        ``bias`` that is added before the one and not before the other.
        """
        given, taken = constants_of(source[0]), constants_of(target[0])
        if source[0].op_type != "BatchNormalization" or given[3].const_value is None:
            return
        mean, variance = (given[index].const_value.numpy().astype(np.float64) for index in (3, 4))  # type: ignore[union-attr]  # constants_of finds stored values only
        gamma, beta = self._stored_scaling(source, mean.size)
        if self.missing is None:
            epsilons = [attributes_of(nodes[0]).get("epsilon", 1e-5) for nodes in (source, target)]
            gamma = gamma * np.sqrt((variance + epsilons[1]) / (variance + epsilons[0]))
        self._give(taken[3], mean - bias)
        self._give(taken[4], variance)
        factors, drawn = (_scaling_values(nodes, 1, "Mul") for nodes in (target, source))
        addends = _scaling_values(target, 2, "Add")
        if all(is_setting(value) and _is_filled_with(value, 1.0) for value in factors):
            for value in drawn:  # the target fixes its gamma, and cannot hold what is drawn
                self._set_drawn(value, np.ones(_size(value)))
        for values, array, neutral in ((factors, gamma, 1.0), (addends, beta, 0.0)):
            holders = [value for value in values if self._is_open(value)]
            for value in holders[:-1]:
                self._give(value, np.full(_size(value), neutral))
            for value in holders[-1:]:
                self._give(value, array)

    def _stored_scaling(self, nodes: Sequence[ir.Node], channels: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the gamma and beta of a BatchNorm with the scalings behind it, as they are stored."""
        gamma, beta = np.ones(channels), np.zeros(channels)
        for node in nodes:
            if self.missing is not None and _scales_by_setting(node):
                continue
            factor, addend = _affine_of(node, channels)
            if node.op_type == "BatchNormalization":
                constants = constants_of(node)
                factor, addend = (constants[i].const_value.numpy().astype(np.float64) for i in (1, 2))  # type: ignore[union-attr]  # constants_of finds stored values only
            gamma, beta = gamma * factor, beta * factor + addend
        return gamma, beta


def _scaling_values(nodes: Sequence[ir.Node], index: int, op_type: str) -> list[ir.Value]:
    """Return an input of a BatchNorm, and the numbers of the nodes of a type behind it."""
    behind = [v for n in nodes[1:] if n.op_type == op_type for v in constants_of(n).values()]
    return [constants_of(nodes[0])[index], *behind]


def _is_filled_with(value: ir.Value, number: float) -> bool:
    return value.const_value is not None and bool((value.const_value.numpy() == number).all())


def _size(value: ir.Value | None) -> int:
    return 0 if value is None or value.const_value is None else int(value.const_value.size)


def _has_norm(nodes: Sequence[ir.Node]) -> bool:
    return any(node.op_type == "BatchNormalization" for node in nodes)


def _scales_by_setting(node: ir.Node) -> bool:
    """Return whether a node multiplies or adds what its net's definition says, and no weights.

    A file of ONNX does not tell the one from the other: a single number is taken for a setting.
    """
    constants = constants_of(node).values()
    is_scaling = node.op_type in {"Mul", "Add", "Sub", "Div"}
    return is_scaling and all(is_setting(value) or _size(value) == 1 for value in constants)


def _without_pads(nodes: list[ir.Node]) -> list[ir.Node]:
    """Leave out padding, which one net writes in a layer of its own and another in its convolution."""
    return [node for node in nodes if node.op_type != "Pad"]


def set_values(value: ir.Value, array: np.ndarray | None) -> int:
    """Give a value an array of as many elements, in place; return how many were given, 1 or 0."""
    old = value.const_value
    if array is None or old is None or array.size != old.size or old.dtype != ir.DataType.FLOAT:
        return 0
    shape = tuple(int(size) for size in old.shape.numpy())
    value.const_value = ir.Tensor(np.asarray(array, np.float32, order="C").reshape(shape))
    return 1


def set_filters(node: ir.Node, filters: np.ndarray | None) -> int:
    """Give a node filters as from ``filters_of``, in place; return how many were given, 1 or 0."""
    current = filters_of(node)
    if filters is None or current is None or not _fits(filters.shape, current.shape):
        return 0
    weight = node.inputs[1]
    array = filters = filters.reshape(current.shape)
    if node.op_type == "ConvTranspose":
        array = filters.swapaxes(0, 1)
    elif node.op_type == "MatMul":
        array = np.moveaxis(filters, 0, -1)
    elif node.op_type == "Gemm":
        transposed = node.attributes.get("transB")
        array = filters if transposed is not None and transposed.as_int() else filters.T
    return set_values(weight, array) if weight is not None else 0


def _fits(given: tuple[int, ...], taken: tuple[int, ...]) -> bool:
    """Return whether filters are of one shape, or would be if a dense layer's were a convolution's."""
    return given == taken or (2 in {len(given), len(taken)} and as_dense(given) == as_dense(taken))


def _affine_of(node: ir.Node, channels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what a node does per output channel: factor and addend."""
    arrays = {
        index: value.const_value.numpy().astype(np.float64)
        for index, value in constants_of(node).items()
        if value.const_value is not None
    }
    one, zero = np.ones(channels), np.zeros(channels)
    if node.op_type in FILTERED:
        return one, arrays[2].reshape(-1) * one if 2 in arrays else zero
    if node.op_type == "BatchNormalization":
        epsilon = attributes_of(node).get("epsilon", 1e-5)
        factor = arrays[1] / np.sqrt(arrays[4] + epsilon)
        return factor, arrays[2] - arrays[3] * factor
    constant = next(iter(arrays.values()), zero).reshape(-1)
    if node.op_type == "Div":
        with np.errstate(divide="ignore"):
            return one / constant, zero
    known = {
        "Add": (one, constant * one),
        "Sub": (one, -constant * one),
        "Mul": (constant * one, zero),
    }
    return known.get(node.op_type, (one, zero))


Place = tuple[str, tuple[int, ...]]
"""Use of an array by its reader, and its sizes."""

Reader = tuple["ir.Node", "ir.Value"]
"""A node, and a stored array among its inputs."""


def copy_unique_arrays(source: Signals, target: Signals, *, is_open: Callable[[ir.Value], bool]) -> None:
    """Give arrays of one net, in place, those of the other that nothing else can stand for.

    Where one net goes over a sequence step by step, its layers have no single partner in the other.

    Args:
        source: The net whose arrays are given.
        target: The net that takes them.
        is_open: Whether a value of the target still waits for its array.
    """
    given, taken = _by_place(source), _by_place(target)
    for place, arrays in taken.items():
        if len(arrays) != 1 or len(given.get(place, {})) != 1:
            continue
        (readers,), (((maker, array), *_),) = arrays.values(), given[place].values()
        for node, value in readers if all(is_open(value) for _, value in readers) else ():
            if place[0] == "filters":
                set_filters(node, filters_of(maker))
            elif array.const_value is not None:
                set_values(value, array.const_value.numpy())


def _by_place(signals: Signals) -> dict[Place, dict[str, list[Reader]]]:
    """Return who reads stored arrays, by what they are read as and then by the array."""
    readers: dict[Place, dict[str, list[Reader]]] = defaultdict(lambda: defaultdict(list))
    for node in signals.nodes:
        for place, value in _places(node):
            readers[place][parameter_key(value) or str(value.name)].append((node, value))
    return readers


def _places(node: ir.Node) -> Iterator[tuple[Place, ir.Value]]:
    constants = {index: value for index, value in constants_of(node).items() if value.const_value is not None}
    shape = filter_shape(node)
    for index, value in constants.items():
        assert value.const_value is not None
        sizes = tuple(int(size) for size in value.const_value.shape.numpy())
        if shape is not None and index == 1:
            yield ("filters", as_dense(shape)), value
        elif shape is not None or (family_of(node) == "affine" and node.op_type == "Add"):
            yield ("bias", (value.const_value.size,)), value
        elif node.op_type == "Gather" and index == 0:
            yield ("table", sizes), value
