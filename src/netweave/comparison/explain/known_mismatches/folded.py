"""Mismatches in a filter and its scalings that the two nets cut differently, such as a folded normalisation.

Whatever the cut, a chain computes one filter, one factor and one shift per output channel. What A's chain has
and B's chain lacks is transferred to the arrays and settings that B has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.align.weights import filters_of
from netweave.comparison.explain.known_mismatches.attributes import set_attribute
from netweave.comparison.explain.known_mismatches.constants import (
    as_stored,
    fix_gamma,
    replace_constant,
    same_array,
    wanted_constant,
)
from netweave.comparison.explain.known_mismatches.mismatch import Case, Proposal, together
from netweave.comparison.explain.known_mismatches.windows import DENSE, say_filters
from netweave.comparison.metric import FACTOR_TOLERANCE, constants_of, family_of
from netweave.graph import attributes_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import onnx_ir as ir


HOLDERS = frozenset({"BatchNormalization", "Mul", "Div"})
"""Scalings that hold a factor."""

EPS = 1e-5
"""What ONNX adds to the variance where a node does not say."""


@dataclass(frozen=True, slots=True)
class _Chain:
    """A filter, if there is one, and the scalings after it, each with its factor and shift per channel."""

    head: ir.Node | None
    links: list[tuple[ir.Node, np.ndarray, np.ndarray]]
    bias: np.ndarray

    @property
    def factor(self) -> np.ndarray:
        product = np.ones_like(self.bias)
        for _, factor, _ in self.links:
            product = product * factor
        return product

    @property
    def shift(self) -> np.ndarray:
        total = self.bias
        for _, factor, shift in self.links:
            total = total * factor + shift
        return total


def folded_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose what B's chain needs to compute A's filter, factor and shift."""
    if [n.op_type for n in case.nodes_a] == [n.op_type for n in case.nodes_b]:
        return
    a, b = _chain(case.nodes_a), _chain(case.nodes_b)
    if a is None or b is None or not (a.links or b.links) or a.bias.shape != b.bias.shape:
        return
    ratio = np.ones_like(b.bias)
    wanted: tuple[np.ndarray, np.ndarray] | None = None
    if a.head is not None and b.head is not None:
        wanted = _filters(case, a.head, b.head)
        if wanted is None:
            return
        common = _ratio(*wanted)
        if common is None:
            yield from _filter(case, a, b, *wanted)
            return
        ratio = common
    elif a.head is not b.head:
        return
    needed = a.factor * ratio / b.factor
    if same_array(needed, np.ones_like(needed)) or np.abs(needed - 1).max() <= FACTOR_TOLERANCE:
        yield from _lost_bias(case, a, b) or _shift(a, b)
        return
    holders = [(node, factor) for node, factor, _ in b.links if node.op_type in HOLDERS]
    if wanted is not None and _close(a.shift, b.shift) and not any(_is_free(b, node) for node, _ in holders):
        yield from _filter(case, a, b, *wanted)  # any other factor would change the shift, which is right
    yield from _held(case, a, holders, needed)


def _held(
    case: Case, a: _Chain, holders: Sequence[tuple[ir.Node, np.ndarray]], needed: np.ndarray
) -> Iterator[Proposal]:
    """Propose another factor for each scaling of B that holds one."""
    for node, factor in sorted(holders, key=lambda row: _is_idle(row[0])):
        if node.op_type == "BatchNormalization":
            yield from _norm(
                case, a, node, factor * needed, alone=sum(_can_hold(n, needed) for n, _ in holders) == 1
            )
        else:
            yield from _factor(a, node, needed)


def missing_factor(case: Case) -> np.ndarray | None:
    """Return by what A's scalings multiply each output channel more than B's; None if these are no chains."""
    a, b = _chain(case.nodes_a), _chain(case.nodes_b)
    return None if a is None or b is None or a.bias.shape != b.bias.shape else a.factor / b.factor


def _chain(nodes: tuple[ir.Node, ...]) -> _Chain | None:
    head = nodes[0] if nodes and filters_of(nodes[0]) is not None else None
    rest = nodes[1:] if head is not None else nodes
    if not nodes or any(family_of(node) != "affine" for node in rest):
        return None
    filters = None if head is None else filters_of(head)
    size = len(filters) if filters is not None else max((_size(node) for node in rest), default=1)
    links = []
    for node in rest:
        link = _link(node, size)
        if link is None:
            return None
        links.append((node, *link))
    bias = np.zeros(size)
    stored = {} if head is None else _arrays(head)
    if head is not None and head.op_type != "MatMul" and 2 in stored:
        bias = stored[2].reshape(-1).astype(np.float64)
    return _Chain(head, links, bias) if bias.shape == (size,) else None


def _arrays(node: ir.Node) -> dict[int, np.ndarray]:
    stored = constants_of(node)
    return {i: value.const_value.numpy() for i, value in stored.items() if value.const_value is not None}


def _size(node: ir.Node) -> int:
    return max((array.size for array in _arrays(node).values()), default=1)


def _link(node: ir.Node, size: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the factor and the shift per channel of a scaling; None if it is none per channel."""
    arrays = {index: array.reshape(-1).astype(np.float64) for index, array in _arrays(node).items()}
    if any(array.size not in {1, size} for array in arrays.values()):
        return None
    one, zero = np.ones(size), np.zeros(size)
    if node.op_type == "BatchNormalization" and arrays.keys() == {1, 2, 3, 4}:
        factor = arrays[1] / np.sqrt(arrays[4] + attributes_of(node).get("epsilon", EPS))
        return one * factor, one * (arrays[2] - arrays[3] * factor)
    if len(arrays) != 1:
        return None
    ((index, array),) = arrays.items()
    if node.op_type == "Mul":
        return one * array, zero
    if node.op_type == "Add":
        return one, one * array
    if index == 1 and node.op_type == "Sub":
        return one, -one * array
    return (one / array, zero) if index == 1 and node.op_type == "Div" else None


def _filters(case: Case, a: ir.Node, b: ir.Node) -> tuple[np.ndarray, np.ndarray] | None:
    """Return A's weights in B's layout, and B's, both with outputs first."""
    if not ({a.op_type, b.op_type} == {"Conv"} or {a.op_type, b.op_type} <= DENSE):
        return None
    array_a, array_b = _arrays(a)[1], _arrays(b)[1]
    wanted = wanted_constant(case, a, b, 1, array_a, array_b)
    if wanted is None or b.op_type == "Conv":
        return None if wanted is None else (wanted, array_b)
    return as_stored(b, wanted), as_stored(b, array_b)


def _ratio(wanted: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """Return the factor per output channel that makes B's filters A's; None if none does."""
    rows_a, rows_b = (x.reshape(len(x), -1).astype(np.float64) for x in (wanted, b))
    ratio = np.asarray((rows_a * rows_b).sum(axis=1) / np.maximum((rows_b**2).sum(axis=1), 1e-30))
    rest = np.abs(rows_a - ratio[:, None] * rows_b).max()
    return ratio if rest <= FACTOR_TOLERANCE * np.abs(rows_a).max() else None


def _filter(case: Case, a: _Chain, b: _Chain, wanted: np.ndarray, stored: np.ndarray) -> Iterator[Proposal]:
    """Propose A's filters, divided by what B's scalings do besides A's."""
    if a.head is None or b.head is None:
        return
    factor = (a.factor / b.factor).reshape(-1, *[1] * (wanted.ndim - 1))
    values = (wanted * factor).astype(np.float32)
    apart = int((np.abs(values - stored) > FACTOR_TOLERANCE * np.abs(values).max()).sum())
    stored_so = as_stored(b.head, values) if b.head.op_type in DENSE else values
    mismatch, cause = say_filters(case, a.head, b.head, stored_so) or (
        "weights",
        f"{apart:,} of {stored.size:,} values of the weights differ, the scalings after them taken in",
    )
    yield Proposal(
        mismatch=mismatch,
        cause=cause,
        fix="give the filters A's values",
        node_a=a.head,
        node_b=b.head,
        change=replace_constant(b.head.name, 1, stored_so),
    )


def _is_idle(node: ir.Node) -> bool:
    """Return whether a normalisation leaves the factor to others: every gamma is 1."""
    return node.op_type == "BatchNormalization" and bool(np.all(_arrays(node)[1] == 1))


def _is_free(b: _Chain, node: ir.Node) -> bool:
    """Return whether a scaling of B may have another factor without another shift.

    It may if the value that it scales has no shift.
    """
    before = b.bias
    for link, factor, shift in b.links:
        if link is node:
            break
        before = before * factor + shift
    mean = _arrays(node)[3].reshape(-1) if node.op_type == "BatchNormalization" else 0.0
    return not np.any(before - mean)


def _can_hold(node: ir.Node, needed: np.ndarray) -> bool:
    """Return whether a factor may be wrong by so much for each channel: one number is by the same for all."""
    is_one = node.op_type != "BatchNormalization" and _size(node) == 1
    return not is_one or _close(needed, np.full_like(needed, needed.flat[0]))


def _factor(a: _Chain, node: ir.Node, needed: np.ndarray) -> Iterator[Proposal]:
    """Propose another factor for a Mul or Div."""
    ((index, array),) = _arrays(node).items()
    if array.size != needed.size:
        return
    times = needed if node.op_type == "Mul" else 1 / needed
    yield Proposal(
        mismatch="weights",
        cause=_say_factor(needed),
        fix="give the factor the values that A's factors have",
        node_a=a.links[-1][0] if a.links else a.head or node,
        node_b=node,
        change=replace_constant(node.name, index, array * times.reshape(array.shape)),
    )


def _say_factor(needed: np.ndarray) -> str:
    apart = int((np.abs(needed - 1) > FACTOR_TOLERANCE).sum())
    return f"the factor of {apart:,} of {needed.size:,} channels differs, the scalings taken together"


def _norm(case: Case, a: _Chain, node: ir.Node, wanted: np.ndarray, *, alone: bool) -> Iterator[Proposal]:
    """Propose what gives a normalisation the factor that A has: eps, gamma, or its statistics.

    Where it is not alone, the factor may as well be wrong elsewhere, and gamma is not said to be the cause.
    """
    arrays = {index: array.astype(np.float64) for index, array in _arrays(node).items()}
    gamma, variance = arrays[1], arrays[4]
    eps = float(attributes_of(node).get("epsilon", EPS))
    total = (gamma / wanted) ** 2
    node_a = next((n for n, *_ in a.links if n.op_type == node.op_type), a.head or a.links[0][0])
    other = float(f"{max(float(np.median(total - variance)), 0.0):.2g}")
    if _close(wanted, gamma / np.sqrt(variance + other)):
        yield Proposal(
            mismatch="epsilon",
            cause=f"eps is {other:g} in A, by its factors, and {eps:g} in B",
            fix=f"set eps to {other:g}",
            node_a=node_a,
            node_b=node,
            change=set_attribute(node.name, "epsilon", other),
        )
        return
    times = float(np.median(variance / np.maximum(total - eps, 1e-30)))
    if len(gamma) > 1 and times > 0 and _close(wanted, gamma / np.sqrt(variance / times + eps)):
        changes = [replace_constant(node.name, i, arrays[i] / times) for i in (3, 4)]
        yield Proposal(
            mismatch="bn-scale-factor",
            cause=f"the running mean and variance of B are {times:.6g} times A's: only one divides by the "
            "stored scale factor",
            fix="divide the statistics by the factor",
            node_a=node_a,
            node_b=node,
            change=together(*changes),
        )
    values = wanted * np.sqrt(variance + eps)
    mismatch, cause = _say_gamma(case, gamma, values) if alone else ("weights", _say_factor(values / gamma))
    yield Proposal(
        mismatch=mismatch,
        cause=cause,
        fix="give gamma the values that A's factors have",
        node_a=node_a,
        node_b=node,
        change=replace_constant(node.name, 1, values),
    )


def _say_gamma(case: Case, gamma: np.ndarray, wanted: np.ndarray) -> tuple[str, str]:
    ones = np.ones_like(gamma)
    apart = int((np.abs(gamma - wanted) > FACTOR_TOLERANCE * np.abs(wanted).max()).sum())
    is_of_most = 2 * apart > gamma.size  # training moves every gamma away from 1
    if is_of_most and same_array(gamma, ones):
        return "fix-gamma", f"B takes every gamma as 1{fix_gamma(case)}, A applies others"
    if is_of_most and _close(wanted, ones):
        return "fix-gamma", f"A takes every gamma as 1{fix_gamma(case)}, B applies the stored ones"
    return "weights", f"{apart:,} of {gamma.size:,} values of the gamma differ from what A's factors have"


def _lost_bias(case: Case, a: _Chain, b: _Chain) -> list[Proposal]:
    """Propose A's bias for the filters in front of B's scalings, if that is all that B's chain lacks."""
    if b.head is not None or not a.links or a.links[0][0].op_type != "Add" or not b.links:
        return []
    reads = case.b.inputs_of(b.links[0][0])
    filters = case.b.producer.get(reads[0]) if reads else None
    bias, missing = a.links[0][2], a.shift - b.shift
    if filters is None or filters_of(filters) is None or not _close(bias * a.factor, missing):
        return []
    changes = [proposal.change for proposal in _shift(a, b)]
    return [
        Proposal(
            mismatch="missing-bias",
            cause="A has a bias, B has none, or zeros",
            fix="give B's layer A's bias",
            node_a=a.links[0][0],
            node_b=filters,
            change=change,
        )
        for change in changes[:1]
    ]


def _shift(a: _Chain, b: _Chain) -> Iterator[Proposal]:
    """Propose other values for an array of B that shifts, those first that are all zero."""
    missing = a.shift - b.shift
    bound = FACTOR_TOLERANCE * max(np.abs(a.shift).max(), 1e-30)
    apart = int((np.abs(missing) > bound).sum())
    if not apart:
        return
    proposals = []
    after = np.ones_like(missing)
    for node, factor, _ in reversed(b.links):
        index = {"BatchNormalization": 2, "Add": next(iter(_arrays(node)), 1)}.get(node.op_type)
        if index is not None:
            proposals.append((node, index, after))
        after = after * factor
    if b.head is not None and 2 in _arrays(b.head):
        proposals.append((b.head, 2, after))
    proposals.sort(key=lambda row: bool(np.any(_arrays(row[0])[row[1]])))
    for node, index, factor in proposals:
        stored = _arrays(node)[index]
        if stored.size != missing.size:
            continue
        values = (stored.reshape(-1) + missing / factor).reshape(stored.shape)
        yield Proposal(
            mismatch="weights",
            cause=f"the shift of {apart:,} of {missing.size:,} channels differs, the scalings taken together",
            fix="give the layer's shift A's values",
            node_a=a.links[-1][0] if a.links else a.head or node,
            node_b=node,
            change=replace_constant(node.name, index, values),
        )


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.abs(a - b).max() <= FACTOR_TOLERANCE * np.abs(a).max())
