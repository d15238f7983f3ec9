"""Known mismatches of the blocks of transformers: rotary embeddings, masks, repeated heads, RMS norms."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.explain.known_mismatches.attributes import set_attribute
from netweave.comparison.explain.known_mismatches.constants import replace_constant, same_array
from netweave.comparison.explain.known_mismatches.mismatch import Case, Proposal, node_named, together
from netweave.comparison.metric import constants_of
from netweave.graph import attributes_of, known_shape
from netweave.graph.passes.masks import NEVER
from netweave.graph.passes.rewriting import Rewriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import onnx_ir as ir

    from netweave.graph import Graph

PAIRS = ("feature i with feature i + d/2, the other half of the head", "neighbours, feature 2i with 2i + 1")

TOLERANCE = 1e-3
"""Relative tolerance of the base of rotary frequencies, which is read off a table of float32."""


@dataclass(frozen=True, slots=True)
class _Rotary:
    """A rotary embedding.

    Attributes:
        interleaved: 1 where neighbours are pairs.
        features: Number of features that it turns.
        cosines: By position and pair.
        sines: Likewise.
    """

    interleaved: int
    features: int
    cosines: np.ndarray
    sines: np.ndarray

    @classmethod
    def of(cls, node: ir.Node) -> _Rotary | None:
        """Return what a node does; None if its tables have more axes than position and pair."""
        tables = [value.const_value for value in constants_of(node).values()]
        arrays = [_by_position(tensor.numpy()) for tensor in tables if tensor is not None]
        known = [array for array in arrays if array is not None]
        if len(known) != 2:
            return None
        cosines, sines = known
        settings = attributes_of(node)
        turns = np.any(sines != 0, axis=0)  # pairs that turn by nothing stand where weights ask for them
        return cls(settings.get("interleaved", 0), 2 * int(turns.sum()), cosines, sines)

    @property
    def sizes(self) -> np.ndarray:
        """Factor on the length of each pair."""
        return np.asarray(np.hypot(self.cosines, self.sines))

    @property
    def frequencies(self) -> np.ndarray:
        """The angle from one position to the next, of each pair."""
        steps = (self.cosines + 1j * self.sines)[1:] * np.conj(self.cosines + 1j * self.sines)[:-1]
        return np.asarray(np.angle(steps.sum(axis=0)))

    @property
    def start(self) -> float:
        """The position that the table starts with."""
        frequency = self.frequencies[0]
        return float(np.arctan2(self.sines[0, 0], self.cosines[0, 0]) / frequency) if frequency else 0.0

    @property
    def theta(self) -> float | None:
        """The base of the frequencies, theta ** (-2i / d); None if they are others."""
        count = len(self.frequencies)
        if count < 2 or (self.frequencies <= 0).any():
            return None
        exponents = np.arange(1, count) / count
        bases = self.frequencies[1:] ** (-1 / exponents)
        is_one = np.allclose(bases, bases[0], rtol=TOLERANCE) and abs(self.frequencies[0] - 1) < TOLERANCE
        return float(f"{np.median(bases):.4g}") if is_one else None


def _by_position(table: np.ndarray) -> np.ndarray | None:
    """Return a table by position and pair; None if it has other axes."""
    long = [size for size in table.shape[:-1] if size > 1]
    return table.reshape(-1, table.shape[-1]).astype(np.float64) if len(long) <= 1 else None


def rotary_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose A's pairs of features, its number of features, or its angles."""
    for node_a, node_b in case.pairs():
        if node_a.op_type != "RotaryEmbedding" or node_b.op_type != "RotaryEmbedding":
            continue
        a, b = _Rotary.of(node_a), _Rotary.of(node_b)
        if a is None or b is None:
            continue
        if a.interleaved != b.interleaved:
            yield Proposal(
                mismatch="rotary-pairing",
                cause=f"the rotary embedding of A pairs {PAIRS[a.interleaved]}; "
                f"that of B pairs {PAIRS[b.interleaved]}",
                fix=f"pair {PAIRS[a.interleaved]}; the cosines and sines in the same order",
                node_a=node_a,
                node_b=node_b,
                change=set_attribute(node_b.name, "interleaved", a.interleaved),
            )
        said = _say_angles(a, b)
        tables = _tables_in(node_a, node_b) if said is not None else None
        if said is not None and tables is not None:
            mismatch, cause, fix = said
            changes = [replace_constant(node_b.name, index, table) for index, table in enumerate(tables, 1)]
            if a.cosines.shape != b.cosines.shape:
                changes.append(set_attribute(node_b.name, "rotary_dim", 2 * a.cosines.shape[-1]))
            yield Proposal(
                mismatch=mismatch,
                cause=cause,
                fix=fix,
                node_a=node_a,
                node_b=node_b,
                change=together(*changes),
            )


def _tables_in(node_a: ir.Node, node_b: ir.Node) -> list[np.ndarray] | None:
    """Return A's tables with the axes of B's; None if they do not fit."""
    tables = []
    for index in (1, 2):
        value_a, value_b = constants_of(node_a)[index].const_value, constants_of(node_b)[index].const_value
        if value_a is None or value_b is None:
            return None
        a, b = value_a.numpy(), value_b.numpy()
        positions = a.reshape(-1, a.shape[-1])
        shape = (*b.shape[:-1], a.shape[-1])
        if int(np.prod(shape)) != positions.size:
            return None
        tables.append(positions.reshape(shape))
    return tables


def _say_angles(a: _Rotary, b: _Rotary) -> tuple[str, str, str] | None:
    """Return the key, the cause and the fix of other angles; None if they are the same."""
    if a.features != b.features:
        cause = f"the rotary embedding turns {a.features} features of each head in A and {b.features} in B"
        return "rotary-features", cause, f"rotate the first {a.features} features of each head"
    if a.cosines.shape != b.cosines.shape or len(a.cosines) < 2:
        return None
    if _close(a.cosines, b.cosines) and _close(a.sines, b.sines):
        return None
    if _close(a.cosines, b.cosines) and _close(a.sines, -b.sines):
        cause = "the rotary embedding turns the other way in B: its sines have the opposite sign"
        return "rotary-sign", cause, "change the sign of the sines"
    if _close(a.frequencies, b.frequencies):
        if abs(a.start - b.start) > TOLERANCE:
            cause = f"the rotary embedding starts at position {a.start:.3g} in A and at {b.start:.3g} in B"
            return "rotary-position", cause, f"start the positions at {a.start:.3g}"
        factor = float(np.median(a.sizes / np.maximum(b.sizes, 1e-30)))
        cause = f"the cosines and sines of the rotary embedding are {factor:.6g} times B's in A"
        return "rotary-scaling", cause, f"multiply the cosines and sines by {factor:.6g}"
    return _say_frequencies(a, b)


def _say_frequencies(a: _Rotary, b: _Rotary) -> tuple[str, str, str]:
    theta_a, theta_b = a.theta, b.theta
    if theta_a is not None and theta_b is not None:
        cause = f"the base (theta) of the rotary embedding is {theta_a:,.10g} in A and {theta_b:,.10g} in B"
        return "rotary-theta", cause, f"use theta {theta_a:,.10g}"
    ratios = b.frequencies / np.where(a.frequencies == 0, 1, a.frequencies)
    if np.allclose(ratios, ratios[0], rtol=TOLERANCE):
        cause = f"the frequencies of the rotary embedding are {ratios[0]:.6g} times A's in B: linear scaling"
        return "rotary-scaling", cause, f"divide the frequencies by {ratios[0]:.6g}"
    shown = [", ".join(f"{each:.3g}" for each in side.frequencies[:4]) for side in (a, b)]
    angles = f"pairs turn by {shown[0]}, ... per position in A and by {shown[1]}, ... in B"
    if theta_b is not None or theta_a is not None:
        scaled, plain, theta = ("A", "B", theta_b) if theta_b is not None else ("B", "A", theta_a)
        cause = (
            f"{scaled} scales the frequencies of its rotary embedding, {plain} does not (theta {theta:,.10g})"
        )
        cause += f": {angles}"
        return (
            "rotary-scaling",
            cause,
            "scale the frequencies as A does" if scaled == "A" else "scale no frequency",
        )
    cause = f"the frequencies of the rotary embedding differ, by theta or by its scaling: {angles}"
    return "rotary-theta", cause, "compute the frequencies as A does"


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.allclose(a, b, rtol=1e-4, atol=1e-5))


# Masks.


def mask_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose A's mask where both nets mask steps by numbers of their own."""
    for node_a, node_b in case.pairs():
        if {node_a.op_type, node_b.op_type} == {"Attention"}:
            if max(len(node_a.inputs), len(node_b.inputs)) < 4:
                continue  # ``is_causal`` is an attribute
            seen = _allowed(node_a), _allowed(node_b)
        else:
            seen = _chosen(node_a), _chosen(node_b)
        if seen[0] is None or seen[1] is None or seen[0].shape != seen[1].shape:
            continue
        if (seen[0] == seen[1]).all():
            continue
        said = [_say_mask(allowed) for allowed in seen if allowed is not None]
        has_window = any("window" in words for words in said)
        yield Proposal(
            mismatch="sliding-window" if has_window else "causal-mask",
            cause=f"in the attention of A {said[0]}; in B {said[1]}",
            fix=f"mask so that {said[0]}",
            node_a=node_a,
            node_b=node_b,
            change=_Mask(node_b.name, seen[0]),
        )


def _chosen(node: ir.Node) -> np.ndarray | None:
    """Return which steps a stored choice leaves in scores that a Softmax reads; None if it does not."""
    values = [None if v is None or v.const_value is None else v.const_value.numpy() for v in node.inputs]
    if node.op_type != "Where" or values[0] is None or values[0].ndim < 2:
        return None
    readers = [reader for reader, _ in node.outputs[0].uses()]
    if [reader.op_type for reader in readers] != ["Softmax"] or prod(values[0].shape[:-2]) != 1:
        return None
    for fill, is_seen in ((values[2], values[0]), (values[1], ~values[0])):
        if fill is not None and fill.size and (fill <= NEVER).all():
            return np.asarray(is_seen.reshape(is_seen.shape[-2:]))
    return None


def _allowed(node: ir.Node) -> np.ndarray | None:
    """Return which keys each query sees; None if inputs decide it, or examples or heads differ in it."""
    shapes = [known_shape(value) for value in node.inputs[:2]]
    steps = [shape[-2] if shape is not None and len(shape) > 1 else None for shape in shapes]
    if steps[0] is None or steps[1] is None:
        return None
    allowed = np.ones((steps[0], steps[1]), np.bool_)
    if attributes_of(node).get("is_causal", 0):
        allowed = np.tri(steps[0], steps[1], dtype=np.bool_)
    mask = node.inputs[3] if len(node.inputs) > 3 else None
    if mask is None:
        return allowed
    numbers = mask.const_value.numpy() if mask.const_value is not None else None
    if numbers is None or numbers.size != allowed.size:
        return None
    seen = numbers if numbers.dtype == np.bool_ else numbers > NEVER
    is_plain = numbers.dtype == np.bool_ or not numbers[seen].any()
    return np.asarray(allowed & seen.reshape(allowed.shape)) if is_plain else None


def _say_mask(allowed: np.ndarray) -> str:
    steps = np.arange(allowed.shape[1])[None, :] - np.arange(allowed.shape[0])[:, None]
    back, ahead = -int(steps[allowed].min(initial=0)), int(steps[allowed].max(initial=0))
    if not np.array_equal(allowed, (steps >= -back) & (steps <= ahead)):
        return f"each step sees up to {int(allowed.sum(axis=1).max())} steps of an irregular mask"
    is_narrow = back + 1 < allowed.shape[0]
    if ahead == 0:
        return (
            f"each step sees a window of {back + 1}, itself and those before"
            if is_narrow
            else "no step sees a later one"
        )
    if ahead + 1 >= allowed.shape[1] and not is_narrow:
        return "each step sees all, also later ones"
    if ahead + 1 >= allowed.shape[1]:
        return f"each step sees the {back} before it and all later ones"
    if not is_narrow:
        return f"each step also sees the next {ahead if ahead > 1 else 'one'}"
    return f"each step sees the {back} before it and the {ahead} after it"


class _Mask:
    """Gives attention of a subgraph a mask."""

    def __init__(self, node: str | None, allowed: np.ndarray) -> None:
        self._node, self._allowed = node, allowed

    def __call__(self, graph: Graph) -> None:
        node = node_named(graph, self._node)
        if node.op_type == "Where":
            is_first = node.inputs[2] is None or node.inputs[2].const_value is None  # the scores come last
            condition = ~self._allowed if is_first else self._allowed
            shape = node.inputs[0].shape if node.inputs[0] is not None else None
            sizes = tuple(shape.numpy()) if shape is not None else condition.shape
            replace_constant(self._node, 0, condition.reshape(sizes))(graph)
            return
        node.attributes.pop("is_causal", None)
        numbers = np.where(self._allowed, np.float32(0), np.float32(np.finfo(np.float32).min))
        if len(node.inputs) > 3:
            node.replace_input_with(3, None)
            node.resize_inputs(3)
        replace_constant(self._node, 3, numbers)(graph)


# Heads that several queries share, and norms.


def repeat_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose A's order of the heads that are repeated for several queries."""
    for node_a, node_b in case.pairs():
        proposal = repeat_proposal(node_a, node_b)
        if proposal is not None:
            yield proposal


def repeat_proposal(node_a: ir.Node, node_b: ir.Node) -> Proposal | None:
    """Return A's order of repeated heads as a change of B's; None if two nodes do not differ in that."""
    if (node_a.op_type, node_b.op_type) != ("Gather", "Gather"):
        return None
    a, b = _places(node_a), _places(node_b)
    if a is None or b is None or a.size != b.size or np.array_equal(a, b):
        return None
    said = [_say_places(each) for each in (a, b)]
    if not all(said):
        return None
    in_place = "use repeat_interleave, which repeats each head in place"
    return Proposal(
        mismatch="head-order",
        cause=f"{_what(node_b)} of A are {said[0]}; those of B are {said[1]}",
        fix=in_place if "in place" in said[0] else "tile the heads",
        node_a=node_a,
        node_b=node_b,
        change=replace_constant(node_b.name, 1, a),
    )


def _places(node: ir.Node) -> np.ndarray | None:
    stored = constants_of(node).get(1)
    array = stored.const_value.numpy() if stored is not None and stored.const_value is not None else None
    return array if array is not None and array.ndim == 1 and 0 not in constants_of(node) else None


def _say_places(places: np.ndarray) -> str:
    count = int(places.max(initial=0)) + 1
    times = places.size // count
    if times < 2 or count * times != places.size:
        return ""
    if np.array_equal(places, np.repeat(np.arange(count), times)):
        return f"repeated in place, each head {times} times in a row"
    return (
        f"tiled, all {count} heads {times} times"
        if np.array_equal(places, np.tile(np.arange(count), times))
        else ""
    )


def _what(node: ir.Node) -> str:
    """Return what is repeated: the keys or the values of attention."""
    places = {use.idx for use in node.outputs[0].uses() if use.node.op_type == "Attention"}
    return {1: "the keys", 2: "the values"}.get(min(places, default=0), "the heads")


def norm_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose to multiply by 1 + w where B multiplies by w, or the other way round."""
    for node_a, node_b in case.pairs():
        if (node_a.op_type, node_b.op_type) != ("RMSNormalization", "RMSNormalization"):
            continue
        scales = [constants_of(node).get(1) for node in (node_a, node_b)]
        arrays = [
            value.const_value.numpy()
            for value in scales
            if value is not None and value.const_value is not None
        ]
        if len(arrays) < 2 or arrays[0].shape != arrays[1].shape:
            continue
        for number, words in ((1, ("1 + w", "w")), (-1, ("w", "1 + w"))):
            if same_array(arrays[0], arrays[1] + np.float32(number)):
                yield Proposal(
                    mismatch="norm-offset",
                    cause=f"the RMS norm of A multiplies by {words[0]}, that of B by {words[1]}",
                    fix=f"multiply by {words[0]}",
                    node_a=node_a,
                    node_b=node_b,
                    change=replace_constant(node_b.name, 1, arrays[0]),
                )


def exchanged_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose to exchange queries and keys, where the scores that B goes on with are A's transposed."""
    for node in case.nodes_b:
        for index, value in enumerate(node.inputs):
            change = case.changes.get(str(value.name)) if value is not None else None
            if value is None or change is None or change.axes is None or change.shape is not None:
                continue
            order = (*range(len(change.axes) - 2), len(change.axes) - 1, len(change.axes) - 2)
            if change.axes != order or change.split is not None or not _is_of_scores(value):
                continue
            yield Proposal(
                mismatch="exchanged-operands",
                cause="queries and keys are exchanged in B: its scores are A's transposed",
                fix="multiply queries by keys, in this order",
                node_a=case.nodes_a[0],
                node_b=node,
                change=_Turned(node.name, index, order),
            )


def _is_of_scores(value: ir.Value) -> bool:
    """Return whether a tensor is a product of two computed matrices, perhaps scaled."""
    node = value.producer()
    while node is not None and node.op_type in {"Div", "Mul", "Reshape"} and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    if node is None or node.op_type != "MatMul":
        return False
    return all(operand is not None and operand.const_value is None for operand in node.inputs)


class _Turned:
    """Lets a node of a subgraph read an input with its axes in another order."""

    def __init__(self, node: str | None, index: int, order: Sequence[int]) -> None:
        self._node, self._index, self._order = node, index, order

    def __call__(self, graph: Graph) -> None:
        node = node_named(graph, self._node)
        turned = Rewriter(graph).insert(node, "Transpose", [node.inputs[self._index]], {"perm": self._order})
        node.replace_input_with(self._index, turned.outputs[0])


def variance_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose to divide squares by their number n, where B divides by n - 1, or the other way round."""
    norms = [next((n for n in nodes if n.op_type == "LayerNormalization"), None) for nodes in _sides(case)]
    quotients = [next(filter(_num_less_one, nodes), None) for nodes in _sides(case)]
    norm, quotient = (norms[0], quotients[1]) if norms[0] is not None else (norms[1], quotients[0])
    if norm is None or quotient is None:
        return
    number = _num_less_one(quotient)
    words = f"n ({number})", "n - 1"
    of_a, of_b = words if norm is norms[0] else words[::-1]
    if norm is norms[0]:
        change = replace_constant(quotient.name, 1, np.array(number, np.float32))
    else:
        scale, factor = constants_of(norm).get(1), (number - 1) / number
        if scale is None or scale.const_value is None:
            return
        epsilon = attributes_of(norm).get("epsilon", 1e-5)
        change = together(
            set_attribute(norm.name, "epsilon", epsilon * factor),
            replace_constant(norm.name, 1, scale.const_value.numpy() * np.float32(factor**0.5)),
        )
    yield Proposal(
        mismatch="norm-variance",
        cause=f"the layer norm of A divides the sum of squares by {of_a}, that of B by {of_b}",
        fix=f"divide by {of_a}: {BIASED if norm is norms[0] else UNBIASED}",
        node_a=norm if norm is norms[0] else quotient,
        node_b=quotient if norm is norms[0] else norm,
        change=change,
    )


BIASED = "the biased variance (unbiased=False, correction=0 or ddof=0)"
UNBIASED = "the unbiased variance (correction=1 or ddof=1)"


def _sides(case: Case) -> tuple[tuple[ir.Node, ...], tuple[ir.Node, ...]]:
    return case.nodes_a, case.nodes_b


def _num_less_one(node: ir.Node) -> int:
    """Return of how many squares a node makes a variance by one less than their number; 0 if of none."""
    divisor = constants_of(node).get(1) if node.op_type == "Div" else None
    if divisor is None or divisor.const_value is None or divisor.const_value.size != 1 or not node.inputs:
        return 0
    maker = node.inputs[0].producer() if node.inputs[0] is not None else None
    while (
        maker is not None and maker.op_type in {"Mul", "Reshape", "Unsqueeze"} and maker.inputs[0] is not None
    ):
        maker = maker.inputs[0].producer()
    if maker is None or maker.op_type not in {"ReduceMean", "ReduceSum"} or maker.inputs[0] is None:
        return 0
    shape, number = known_shape(maker.inputs[0]), divisor.const_value.numpy().item() + 1
    return int(number) if shape and shape[-1] == number else 0


def position_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose A's rows of a stored table that is added to a sequence, by which of its rows B takes."""
    for node_a, node_b in case.pairs():
        if (node_a.op_type, node_b.op_type) != ("Add", "Add"):
            continue
        stored_a, stored_b = (list(constants_of(node).items()) for node in (node_a, node_b))
        if len(stored_a) != 1 or len(stored_b) != 1:
            continue
        tables = [
            value.const_value.numpy() for _, value in (*stored_a, *stored_b) if value.const_value is not None
        ]
        shapes = [tuple(size for size in table.shape if size > 1) for table in tables]
        if len(tables) < 2 or len(shapes[0]) != 2 or shapes[0] != shapes[1]:
            continue
        rows_a, rows_b = (table.reshape(shapes[0]) for table in tables)
        said = _say_rows(rows_a, rows_b)
        if said is not None:
            yield Proposal(
                mismatch="position-rows",
                cause=said[0],
                fix=said[1],
                node_a=node_a,
                node_b=node_b,
                change=replace_constant(node_b.name, stored_b[0][0], rows_a.reshape(tables[1].shape)),
            )


ROWS_BEHIND = (
    "the rows of positions that B adds start {shift} behind A's: step t has those of step t + {shift}"
)
ROWS_BEFORE = (
    "the rows of positions that B adds start {shift} before A's: step t has those of step t - {shift}"
)
OTHER_CONSTANT = (
    "the vector that B adds to every step besides the positions is another one: another row of the table of "
    "token types, or another bias",
    "add the row that A adds",
)
"""Cause and fix."""


def _say_rows(a: np.ndarray, b: np.ndarray) -> tuple[str, str] | None:
    """Return the cause and the fix of other rows; None if they are the same, or neither is a shift."""
    if same_array(a, b):
        return None
    for shift in range(1, len(a) // 2 + 1):
        if same_array(a[shift:], b[:-shift]):
            return ROWS_BEHIND.format(shift=shift), f"start the positions {shift} earlier"
        if same_array(b[shift:], a[:-shift]):
            return ROWS_BEFORE.format(shift=shift), f"start the positions {shift} later"
    return OTHER_CONSTANT if same_array(a - a[:1], b - b[:1]) else None


def centring_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose to take the mean of squares, where B subtracts the mean before it squares and A does not."""
    rms = next((node for node in case.nodes_a if node.op_type == "RMSNormalization" or _squares(node)), None)
    is_centred = any(node.op_type == "Sub" for node in case.nodes_a)
    for node in case.nodes_b if rms is not None and not is_centred else ():
        mean = node.inputs[1].producer() if node.op_type == "Sub" and node.inputs[1] is not None else None
        if (
            rms is None
            or mean is None
            or mean.op_type != "ReduceMean"
            or mean.inputs[0] is not node.inputs[0]
        ):
            continue
        yield Proposal(
            mismatch="norm-centring",
            cause="A divides by the root of the mean square, as an RMS norm does; B subtracts the mean "
            "before it squares, as a LayerNorm does",
            fix="divide by the root of the mean of x ** 2, without subtracting the mean",
            node_a=rms,
            node_b=node,
            change=_Uncentred(node.name),
        )


def _squares(node: ir.Node) -> bool:
    return node.op_type == "Pow" or (node.op_type == "Mul" and node.inputs[0] is node.inputs[1])


class _Uncentred:
    """Lets a subgraph subtract no mean."""

    def __init__(self, node: str | None) -> None:
        self._node = node

    def __call__(self, graph: Graph) -> None:
        node = node_named(graph, self._node)
        x = node.inputs[0]
        assert x is not None  # as ``centring_mismatches`` has it
        Rewriter(graph).bypass(node, x)
