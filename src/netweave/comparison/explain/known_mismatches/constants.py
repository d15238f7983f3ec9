"""Mismatches that are stored arrays: wrong weights, statistics not divided, gamma, slopes, flatten order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.comparison.align.weights import filters_of, stand_in
from netweave.comparison.assembled_weights import BIASES, SUMMED, in_first_half
from netweave.comparison.explain.known_mismatches.mismatch import Case, Proposal, node_named
from netweave.comparison.explain.known_mismatches.windows import (
    DENSE,
    in_input_order,
    rounding_of,
    same_size,
    say_filters,
)
from netweave.comparison.explain.wording import padding_layer_setting, slope_setting
from netweave.comparison.layout.orientation import ORIENTATIONS
from netweave.comparison.metric import FACTOR_TOLERANCE, constants_of, differing, is_constant, relative_error
from netweave.formats.dialect import dialect_of
from netweave.graph import attributes_of, known_shape
from netweave.graph.parameters import source_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Set

    from netweave.graph import Graph

ROLES = {
    "Attention": ("", "", "", "bias of the scores"),
    "BatchNormalization": ("", "gamma", "beta", "running mean", "running variance"),
    "Conv": ("", "weights", "bias"),
    "ConvTranspose": ("", "weights", "bias"),
    "Gemm": ("", "weights", "bias"),
    "LayerNormalization": ("", "weights", "bias"),
    "MatMul": ("weights", "weights"),
    "PRelu": ("", "slopes"),
    "RMSNormalization": ("", "weights"),
    "Clip": ("", "lower bound", "upper bound"),
    "Add": ("addend", "addend"),
    "Div": ("dividend", "divisor"),
    "Mul": ("factor", "factor"),
}


SCALING = {"Mul": "scale", "Div": "divisor"}

BEFORE_SOFTMAX = frozenset({"Add", "Cast", "Div", "Max", "Mul", "Reshape", "Sub", "Tanh", "Where"})
"""Operators of masks and caps, between the scaling of scores and their Softmax."""

AFTER_SOFTMAX = frozenset({"Cast", "Mul", "Reshape", "Where"})

MAX_BETWEEN = 8

OF_VALUES = frozenset(
    {
        "Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Clip", "ConvInteger",
        "DequantizeLinear", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Loop",
        "MatMulInteger", "MatMulNBits", "Max", "Min", "Mod", "Mul", "NonMaxSuppression", "OneHot", "Or",
        "Pow", "QLinearConv", "QLinearMatMul", "QuantizeLinear", "Sub", "Where", "Xor",
    }
)  # fmt: skip
"""Operators whose integers are values; those of others are sizes and places, which follow the layout."""


def constant_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose A's arrays, in B's layout, where B's differ."""
    for node_a, node_b in case.pairs():
        if node_a.op_type == node_b.op_type and not (
            node_a.op_type == "Resize" and same_size(node_a, node_b)
        ):
            yield from _node_mismatches(case, node_a, node_b)
            yield from _amounts(case, node_a, node_b)
            yield from _superfluous(node_a, node_b)
            yield from _elements(node_a, node_b)


def bias_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose A's bias where a dense layer stands for a convolution of one pixel, or the other way round."""
    if len(case.nodes_a) != 1 or len(case.nodes_b) != 1:
        return
    (node_a,), (node_b,) = case.nodes_a, case.nodes_b
    if {node_a.op_type, node_b.op_type} != {"Conv", "Gemm"} or not stand_in(node_a, node_b):
        return
    array = _numpy(bias) if (bias := constants_of(node_a).get(2)) is not None else None
    if array is not None and array.ndim == 1:
        yield from _missing(node_a, node_b, 2, array)
    yield from _superfluous(node_a, node_b)


def _node_mismatches(case: Case, node_a: ir.Node, node_b: ir.Node) -> Iterator[Proposal]:
    arrays_a, arrays_b = constants_of(node_a), constants_of(node_b)
    for index, value_a in arrays_a.items():
        array_a = _numpy(value_a)
        value_b = arrays_b.get(index)
        if array_a is None:
            continue
        if value_b is None:
            yield from _missing(node_a, node_b, index, array_a)
            continue
        array_b = _numpy(value_b)
        if array_b is None or (array_b.dtype.kind != "f" and node_b.op_type not in OF_VALUES):
            continue
        is_slope = node_b.op_type == "PRelu"
        if is_slope and array_a.size != array_b.size:
            yield from _slope_sharing(case, node_a, node_b, array_a, array_b)
            continue
        wanted = wanted_constant(case, node_a, node_b, index, array_a, array_b)
        if wanted is None or same_array(wanted, array_b) or _add_up(node_b, index, array_a, array_b):
            continue
        if _role(node_b, index) == "bias" and not source_keys(value_b) and not np.any(array_b):
            yield _missing_array(node_a, node_b, index, wanted)  # zeros that stand for no bias
            continue
        mismatch, cause = _say(case, node_a, node_b, index, wanted, array_a, array_b)
        can_fix = bool(dialect_of(case.b.graph.format).fixed_scale)
        if mismatch == "fix-gamma" and can_fix and _role(node_b, index) == "gamma":
            yield _switched(case, node_a, node_b, cause, wanted)
            continue
        role, fix = _role(node_b, index), _fix(_role(node_b, index), value_b, array_b, wanted)
        moved = _moved(case, value_b, wanted, array_b) if mismatch == "weights" else None
        mismatch, role, cause, fix = moved or (mismatch, role, cause, fix)
        yield Proposal(
            mismatch=mismatch,
            subject=role,
            cause=cause,
            fix=fix,
            node_a=node_a,
            node_b=node_b,
            change=replace_constant(node_b.name, index, wanted),
            array=index,
        )


def _add_up(node: ir.Node, index: int, a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether the biases of a recurrent layer are the same once both halves are added, as it does."""
    if node.op_type not in SUMMED or index != BIASES or a.shape != b.shape:
        return False
    return same_array(in_first_half(a), in_first_half(b))


def _switched(case: Case, node_a: ir.Node, node_b: ir.Node, cause: str, wanted: np.ndarray) -> Proposal:
    """Propose MXNet's setting for B; where its files store other gammas than A applies, these as well."""
    gamma = constants_of(node_b)[1]
    stored = case.b.graph.unread.get(str(gamma.name))
    if source_keys(gamma):
        fix = "fix_gamma=True" if (wanted == 1).all() else f"give gamma{_stored_name(gamma)} A's values"
    elif stored is not None and same_array(wanted, stored):
        fix, wanted = "fix_gamma=False", stored
    else:
        stored_name = str(gamma.name).partition("/fixed")[0]
        fix = f"set fix_gamma=False and give gamma {stored_name!r} A's values"
    change = replace_constant(node_b.name, 1, wanted)
    return Proposal("fix-gamma", cause, fix, node_a, node_b, change, subject="gamma", array=1)


def _fix(role: str, value: ir.Value, array: np.ndarray, wanted: np.ndarray) -> str:
    """Return what to do with a constant of B: for a number in the code, which number to write for it."""
    if array.size == wanted.size == 1 and not source_keys(value) and _NUMBERED.fullmatch(str(value.name)):
        return f"write {wanted.item():.7g} for {array.item():.7g}"
    if array.size == wanted.size == 1:
        return f"give the {role}{_stored_name(value)} the value {wanted.item():.7g}"
    return f"give {role}{_stored_name(value)} A's values"


_NUMBERED = re.compile(r"val_\d+")
"""Names that PyTorch's exporter makes up."""


def _stored_name(value: ir.Value) -> str:
    """Return the name that a stored array has in its file, ready to follow its role; empty without one."""
    keys = source_keys(value)
    if keys or _NUMBERED.fullmatch(str(value.name)):
        return f" {keys[0]!r}" if len(keys) == 1 else ""
    return f" {value.name!r}"


def _slope_sharing(
    case: Case, node_a: ir.Node, node_b: ir.Node, a: np.ndarray, b: np.ndarray
) -> Iterator[Proposal]:
    """Propose one slope for all channels, or one for each; nothing where all are the same number."""
    if (
        1 not in {a.size, b.size}
        or not differing(
            np.broadcast_to(a.reshape(-1), max(a.size, b.size)),
            np.broadcast_to(b.reshape(-1), max(a.size, b.size)),
        ).any()
    ):
        return
    one, each = "one slope for all channels", f"one for each of {max(a.size, b.size)} channels"
    shared = a.size == 1
    yield Proposal(
        mismatch="slope-sharing",
        subject="slopes",
        cause=f"A learned {one if shared else each}, B {each if shared else one}",
        fix=slope_setting(case.b.graph.format, a.size, shared=shared),
        node_a=node_a,
        node_b=node_b,
        change=replace_constant(node_b.name, 1, a),
        array=1,
    )


def _amounts(case: Case, node_a: ir.Node, node_b: ir.Node) -> Iterator[Proposal]:
    """Propose what A's Pad adds at the begins and ends of all axes."""
    stored = [constants_of(node).get(1) if node.op_type == "Pad" else None for node in (node_a, node_b)]
    a, b = (None if value is None else _numpy(value) for value in stored)
    if a is None or b is None or a.shape != b.shape or np.array_equal(a, b):
        return
    pairs_a, pairs_b = (x.reshape(2, -1).T.tolist() for x in (a, b))
    apart = [axis for axis, pairs in enumerate(zip(pairs_a, pairs_b, strict=True)) if pairs[0] != pairs[1]]
    shown_a, shown_b = (", ".join(str(tuple(pairs[axis])) for axis in apart) for pairs in (pairs_a, pairs_b))
    axes = f"{'axes' if len(apart) > 1 else 'axis'} {', '.join(map(str, apart))}"
    yield Proposal(
        mismatch="padding",
        cause=f"padding before and after {axes} is {shown_a} in A and {shown_b} in B",
        fix=padding_layer_setting(case.b.graph.format, pairs_a, apart) or f"pad {axes} by {shown_a}",
        node_a=node_a,
        node_b=node_b,
        change=replace_constant(node_b.name, 1, a),
    )


def _elements(node_a: ir.Node, node_b: ir.Node) -> Iterator[Proposal]:
    """Propose the one element that A takes along an axis: the first token, where B takes the last."""
    stored = [constants_of(node).get(1) for node in (node_a, node_b)]
    a, b = (_numpy(value) if value is not None else None for value in stored)
    if node_b.op_type != "Gather" or a is None or b is None or a.size != 1 or b.size != 1:
        return
    axes = [attributes_of(node).get("axis", 0) for node in (node_a, node_b)]
    shape = known_shape(node_b.inputs[0])
    if axes[0] != axes[1] or shape is None or 0 in constants_of(node_b):
        return
    size = shape[axes[0]]
    numbers = [int(each) % size if size else int(each) for each in (a.item(), b.item())]
    if numbers[0] == numbers[1]:
        return
    said = [f"{each} (the last)" if each in {-1, (size or 0) - 1} else str(each) for each in numbers]
    yield Proposal(
        mismatch="element",
        cause=f"along axis {axes[0]} the element at {said[0]} is taken in A, the one at {said[1]} in B",
        fix=f"take the element at {said[0]}",
        node_a=node_a,
        node_b=node_b,
        change=replace_constant(node_b.name, 1, a.astype(b.dtype).reshape(b.shape)),
    )


def _numpy(value: ir.Value) -> np.ndarray | None:
    return None if value.const_value is None else value.const_value.numpy()


def same_array(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether two stored arrays are the same up to rounding."""
    if a.shape != b.shape:
        return False
    return np.array_equal(a, b) or not differing(a, b).any()


def wanted_constant(
    case: Case, node_a: ir.Node, node_b: ir.Node, index: int, a: np.ndarray, b: np.ndarray
) -> np.ndarray | None:
    """Return what B's array should be: A's in B's layout; None if there is no telling."""
    if index == 1 and node_a.op_type in {"Conv", "ConvTranspose"}:
        filters = ORIENTATIONS[case.orientation](a) if a.ndim == 4 else a
        order = _input_order(case, node_b)
        if order is not None and node_a.op_type == "Conv":
            filters = in_input_order(filters, order)
        return np.asarray(filters, order="C") if filters.shape == b.shape else None
    if index == 1 and node_a.op_type in DENSE:
        return _dense(case, node_a, node_b, b)
    order = _input_order(case, node_b)
    if order is not None and _is_vector(a) and a.size == len(order):
        a = a.reshape(-1)[list(order)].reshape(a.shape)
    if a.shape == b.shape:
        return a
    return a.reshape(b.shape) if a.size == b.size and max(a.ndim, b.ndim) <= 4 and _is_vector(a) else None


def _input_order(case: Case, node_b: ir.Node) -> tuple[int, ...] | None:
    """Return the order in which the channels of A reach a node of B."""
    for signal in case.b.inputs_of(node_b):
        if signal in case.changes:
            return case.changes[signal].channel_order
    return None


def _is_vector(x: np.ndarray) -> bool:
    return bool(sum(size != 1 for size in x.shape) <= 1)


def _dense(case: Case, node_a: ir.Node, node_b: ir.Node, b: np.ndarray) -> np.ndarray | None:
    """Return A's dense weights with the inputs in the order in which B's flatten has them."""
    from netweave.comparison.explain.flatten import column_order

    filters = filters_of(node_a)
    if filters is None or filters.ndim != 2 or filters.size != b.size:
        return None
    order = column_order(case, node_a, node_b)
    if order is not None and len(order) == filters.shape[1] and (order != np.arange(len(order))).any():
        filters = filters[:, order]
    wanted = as_stored(node_b, filters)
    return wanted if wanted.shape == b.shape else None


def as_stored(dense: ir.Node, filters: np.ndarray) -> np.ndarray:
    """Return the weights of a dense layer, given with outputs first, as its node has them."""
    transposed = dense.attributes.get("transB")
    return filters if transposed is not None and transposed.as_int() else filters.T


def _role(node: ir.Node, index: int) -> str:
    if node.op_type in SCALING and (scaled := scaled_in_attention(node)):
        return f"{SCALING[node.op_type]} of the {scaled}"
    roles = ROLES.get(node.op_type, ())
    return roles[index] if index < len(roles) and roles[index] else f"input {index}"


def scaled_in_attention(node: ir.Node) -> str:
    """Return what of attention a node scales, in words: scores, or queries and keys before their product."""
    if _makes_scores(node):
        return "attention scores"
    product = _read_behind(node, {"Reshape", "Transpose"})
    is_of_scores = product is not None and product.op_type == "MatMul" and _makes_scores(product)
    return "queries and keys" if is_of_scores else ""


def _makes_scores(node: ir.Node) -> bool:
    """Return whether a node makes scores of attention, of which a Softmax makes weights for a product."""
    scores = _read_behind(node, BEFORE_SOFTMAX)
    weights = (
        _read_behind(scores, AFTER_SOFTMAX) if scores is not None and scores.op_type == "Softmax" else None
    )
    return weights is not None and weights.op_type == "MatMul"


def _read_behind(node: ir.Node, between: Set[str]) -> ir.Node | None:
    """Return the first node behind others of some operators, each of which alone reads what is before it."""
    for _ in range(MAX_BETWEEN):
        readers = [reader for reader, _ in node.outputs[0].uses()]
        if len(readers) != 1:
            return None
        (node,) = readers
        if node.op_type not in between:
            return node
    return None


def _say(
    case: Case,
    node_a: ir.Node,
    node_b: ir.Node,
    index: int,
    wanted: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
) -> tuple[str, str]:
    """Return the key and the words of the mismatch that made B's array differ."""
    role = _role(node_b, index)
    if b.dtype.kind != "f":  # differences of bytes wrap around, and bools have none
        wanted, b = wanted.astype(np.float64), b.astype(np.float64)
    rounded = rounding_of(wanted, b)
    if rounded:
        return "precision", f"the {role} of {rounded}"
    if role == "gamma" or (role == "factor" and _is_scale(node_b)):
        if same_array(np.ones_like(wanted), wanted):
            return "fix-gamma", f"A takes every gamma as 1{fix_gamma(case)}, B applies the stored ones"
        if same_array(np.ones_like(b), b):
            return "fix-gamma", f"B takes every gamma as 1{fix_gamma(case)}, A applies the stored ones"
    factor = _common_factor(wanted, b)
    if role.startswith("running") and factor is not None:
        return "bn-scale-factor", (
            f"the {role} of B is {factor:.6g} times A's: only one divides by the stored scale factor"
        )
    if index == 1 and wanted.ndim >= 2:
        named = say_filters(case, node_a, node_b, wanted)
        if named is not None:
            return named
    if factor is not None:
        return "weights", f"{role} of B is {factor:.6g} times A's"
    return ("slope" if role == "slopes" else "weights"), _values_apart(role, wanted, b)


def _moved(case: Case, value: ir.Value, a: np.ndarray, b: np.ndarray) -> tuple[str, str, str, str] | None:
    """Return the key, the role, the cause and the fix of an array that holds the right values elsewhere."""
    if a.ndim == 2 and a.shape == b.shape and not differing(a.T.reshape(b.shape), b).any():
        is_square = a.shape == a.T.shape
        cause = "transposed" if is_square else "reshaped where they are to be transposed"
        fix = f"transpose weights{_stored_name(value)}"
        return "weights", "weights", f"the weights of B are A's, {cause}", fix
    cut = _cut_otherwise(case, value, a)
    return None if cut is None else ("fused-order", "", *cut)


def _cut_otherwise(case: Case, value: ir.Value, wanted: np.ndarray) -> tuple[str, str] | None:
    """Say how B cuts an array of several parts, such as queries, keys and values, where A cuts it otherwise.

    Args:
        case: The group.
        value: B's part.
        wanted: A's part, in B's layout.

    Returns:
        The cause and the fix; None if A's part has other values than B's parts together.
    """
    keys = source_keys(value)
    stored = case.b.graph.model.graph.initializers.values()
    parts = [part for part in stored if keys and source_keys(part) == keys]
    arrays = [array for part in parts if (array := _numpy(part)) is not None and array.shape == wanted.shape]
    if len(arrays) < 2 or wanted.size < 2:
        return None
    for axis in range(wanted.ndim):
        lines = np.moveaxis(wanted, axis, 0).reshape(wanted.shape[axis], -1)
        pool = np.concatenate([np.moveaxis(x, axis, 0).reshape(len(lines), -1) for x in arrays])
        places = _places_of(lines, pool)
        if places is None:
            continue
        run = int(np.diff([0, *(np.flatnonzero(np.diff(places) != 1) + 1), len(places)]).min())
        if run == len(places):
            return None  # another part as a whole, which weights tell
        return (
            f"A and B cut an array into its {len(arrays)} parts otherwise: what is one part of A lies in "
            f"several parts of B, {run} rows or columns at a time",
            f"cut it as A does: one of the two takes it as ({len(arrays)}, heads, {run}), the other as "
            f"(heads, {len(arrays)}, {run})",
        )
    return None


def _places_of(lines: np.ndarray, pool: np.ndarray) -> np.ndarray | None:
    """Return which row of a pool each line is; None unless all are there, each in one place."""
    if lines.shape[0] < 2 or pool.shape[1] != lines.shape[1]:
        return None
    direction = np.random.default_rng(0).standard_normal(lines.shape[1])
    order = np.argsort(pool.astype(np.float64) @ direction)
    keys = (pool.astype(np.float64) @ direction)[order]
    at = np.searchsorted(keys, lines.astype(np.float64) @ direction)
    near = np.stack([np.clip(at + step, 0, len(order) - 1) for step in (-1, 0)])
    apart = np.abs(pool[order[near]].astype(np.float64) - lines).max(axis=2)
    best = apart.argmin(axis=0)
    places = np.asarray(order[near[best, np.arange(len(lines))]])
    is_found = not differing(pool[places], lines).any()
    return places if is_found and len(set(places.tolist())) == len(places) else None


def _values_apart(role: str, a: np.ndarray, b: np.ndarray) -> str:
    """Say how an array of B differs from what it should hold."""
    if b.size == 1:
        return f"the {role} is {a.item():.6g} in A and {b.item():.6g} in B"
    different = differing(a, b)
    with np.errstate(invalid="ignore"):
        apart = np.where(different, a - b, 0)
    place = tuple(int(i) for i in np.unravel_index(int(np.abs(apart).argmax()), b.shape))
    return (
        f"{int(different.sum()):,} of {b.size:,} values of the {role} differ, most at {list(place)}: "
        f"{float(a[place]):.6g} in A, {float(b[place]):.6g} in B"
    )


def fix_gamma(case: Case) -> str:
    """Name the setting that keeps the scale at 1, where the format of one of the nets has one."""
    names = [dialect_of(side.graph.format).fixed_scale for side in (case.a, case.b)]
    return next((f" ({name})" for name in names if name), "")


def _is_scale(node: ir.Node) -> bool:
    """Return whether a product scales what a batch normalisation made, as Caffe's Scale does: by gamma."""
    sources = [value.producer() for value in node.inputs if value is not None]
    return any(source is not None and source.op_type == "BatchNormalization" for source in sources)


def _common_factor(a: np.ndarray, b: np.ndarray) -> float | None:
    largest = int(np.abs(a).argmax())
    top = a.reshape(-1)[largest]
    if top == 0:
        return None
    factor = float(b.reshape(-1)[largest] / top)
    if factor == 1.0 or a.size < 2 or not np.isfinite(factor) or factor == 0:
        return None
    return (
        factor if relative_error(b.reshape(1, -1), (a * factor).reshape(1, -1)) < FACTOR_TOLERANCE else None
    )


def _missing(node_a: ir.Node, node_b: ir.Node, index: int, array: np.ndarray) -> Iterator[Proposal]:
    """A has an array that B's node lacks, such as a bias."""
    has_input = index < len(node_b.inputs) and node_b.inputs[index] is not None
    if has_input or not np.any(array):
        return
    yield _missing_array(node_a, node_b, index, array)


def _missing_array(node_a: ir.Node, node_b: ir.Node, index: int, array: np.ndarray) -> Proposal:
    role = _role(node_a, index)
    return Proposal(
        mismatch="missing-bias" if role == "bias" else "missing-input",
        cause=f"A has {role if role.startswith('input ') else f'a {role}'}, B has none",
        fix=f"give B's layer A's {role}",
        node_a=node_a,
        node_b=node_b,
        change=replace_constant(node_b.name, index, array),
    )


def _superfluous(node_a: ir.Node, node_b: ir.Node) -> Iterator[Proposal]:
    """B's filter has a bias that A's lacks."""
    bias = constants_of(node_b).get(2) if filters_of(node_b) is not None else None
    array = _numpy(bias) if bias is not None else None
    if array is None or not np.any(array) or (len(node_a.inputs) > 2 and node_a.inputs[2] is not None):
        return
    yield Proposal(
        mismatch="missing-bias",
        cause="B has a bias, A has none",
        fix="take the bias from B's layer",
        node_a=node_a,
        node_b=node_b,
        change=replace_constant(node_b.name, 2, np.zeros_like(array)),
    )


def replace_constant(node: str | None, index: int, values: np.ndarray) -> Callable[[Graph], None]:
    """Return a change that gives an input of a node, by its name, other values."""
    return _Replace(node, index, values.astype(np.float32) if values.dtype == np.float64 else values)


class _Replace:
    """Gives an input of a node of a subgraph other values."""

    def __init__(self, node: str | None, index: int, array: np.ndarray) -> None:
        self._node, self._index, self._array = node, index, array

    def __call__(self, graph: Graph) -> None:
        node = node_named(graph, self._node)
        name = f"{self._node}/fixed{self._index}"
        while name in graph.model.graph.initializers:  # of two changes of one array the later holds
            name += "_"
        value = ir.Value(
            name=name,
            shape=ir.Shape(self._array.shape),
            type=ir.TensorType(ir.DataType.from_numpy(self._array.dtype)),
            const_value=ir.Tensor(np.asarray(self._array, order="C")),
        )
        graph.model.graph.register_initializer(value)
        if self._index >= len(node.inputs):
            node.resize_inputs(self._index + 1)
        old = node.inputs[self._index]
        node.replace_input_with(self._index, value)
        if old is not None and is_constant(old) and not old.uses() and old.name:
            graph.model.graph.initializers.pop(old.name, None)
