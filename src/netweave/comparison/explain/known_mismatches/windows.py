"""Known mismatches of windows: pads, rounding, filters and resizing."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.comparison.align.weights import filters_of, outputs_first
from netweave.comparison.explain.known_mismatches.attributes import (
    canonical,
    differences,
    mismatch_key,
    set_attribute,
)
from netweave.comparison.explain.known_mismatches.mismatch import Case, Proposal, node_named, together
from netweave.comparison.explain.wording import in_words, resize_setting, setting
from netweave.comparison.layout.filters import INPUTS, OUTPUTS, are_same, match_filters
from netweave.comparison.layout.orientation import SWAPPED, inverse
from netweave.comparison.layout.wording import listed_order
from netweave.comparison.metric import constants_of
from netweave.graph import attributes_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from netweave.graph import Graph


# Frameworks pad a max pooling with minus infinity, which no maximum is. A layer of zeros in front of it, as
# ports of SAME rules have it, wins wherever all values of a window are negative.


def pool_padding_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose A's padding in front of a max pooling: the pooling's own, or one of zeros."""
    for node_a, node_b in case.pairs():
        if node_a.op_type != "MaxPool" or node_b.op_type != "MaxPool":
            continue
        pad_a, pad_b = (
            _pad_before(n, nodes) for n, nodes in ((node_a, case.nodes_a), (node_b, case.nodes_b))
        )
        own_a, own_b = (tuple(canonical(node)["pads"]) for node in (node_a, node_b))
        if pad_b is not None and pad_a is None and any(own_a):
            cause = "A pads with minus infinity, as part of the max pooling; B pads with zeros in front of it"
            fix = f"{setting(case.b.graph.format, node_b, 'pads', own_a)}, and no padding in front"
            yield _proposal(node_a, node_b, cause, fix, _Repad(node_b.name, pad_b.name, None, own_a))
        if pad_a is not None and pad_b is None and any(own_b):
            amounts = _amounts(pad_a)
            if amounts is None:
                continue
            cause = "A pads with zeros in front of the max pooling; B with minus infinity, as part of it"
            fix = f"pad with zeros in front ({in_words('pads', _spatial(amounts))}), and not in the pooling"
            yield _proposal(node_a, node_b, cause, fix, _Repad(node_b.name, None, amounts, own_a))


def _proposal(node_a: ir.Node, node_b: ir.Node, cause: str, fix: str, change: _Repad) -> Proposal:
    return Proposal(
        mismatch="pool-padding", cause=cause, fix=fix, node_a=node_a, node_b=node_b, change=change
    )


def _pad_before(node: ir.Node, nodes: Sequence[ir.Node]) -> ir.Node | None:
    """Return the padding with zeros in a group that a pooling reads."""
    source = node.inputs[0].producer() if node.inputs[0] is not None else None
    if source is None or source.op_type != "Pad" or not any(source is other for other in nodes):
        return None
    value = constants_of(source).get(2)
    is_zero = value is None or (value.const_value is not None and not value.const_value.numpy().any())
    mode = attributes_of(source).get("mode", "constant")
    return source if mode == "constant" and is_zero and _amounts(source) is not None else None


def _amounts(pad: ir.Node) -> np.ndarray | None:
    """Return what a Pad adds at the begins and at the ends of all axes; None if it is computed."""
    amounts = constants_of(pad).get(1)
    if (
        amounts is None
        or amounts.const_value is None
        or len(constants_of(pad)) > 2 + (2 in constants_of(pad))
    ):
        return None
    array: np.ndarray = amounts.const_value.numpy()
    return array


def _spatial(amounts: np.ndarray) -> tuple[int, ...]:
    half = len(amounts) // 2
    return tuple(int(x) for x in (*amounts[2:half], *amounts[half + 2 :]))


class _Repad:
    """Takes the padding in front of a pooling away, or puts one there, and gives the pooling its own."""

    def __init__(
        self, node: str | None, drop: str | None, amounts: np.ndarray | None, own: tuple[int, ...]
    ) -> None:
        self._node, self._drop, self._amounts, self._own = node, drop, amounts, own

    def __call__(self, graph: Graph) -> None:
        node = node_named(graph, self._node)
        if self._drop is not None:
            pad = node_named(graph, self._drop)
            node.replace_input_with(0, pad.inputs[0])
        if self._amounts is not None:
            stored = ir.Value(
                name=f"{self._node}/amounts",
                shape=ir.Shape(self._amounts.shape),
                type=ir.TensorType(ir.DataType.INT64),
                const_value=ir.Tensor(self._amounts.astype(np.int64)),
            )
            graph.model.graph.register_initializer(stored)
            pad = ir.Node("", "Pad", [node.inputs[0], stored], num_outputs=1, name=f"{self._node}/pad")
            pad.outputs[0].name = f"{self._node}/padded"
            pad.outputs[0].type = node.outputs[0].type
            graph.model.graph.insert_before(node, pad)
            node.replace_input_with(0, pad.outputs[0])
        node.attributes["pads"] = ir.AttrInt64s("pads", self._own)


def rounding_of(a: np.ndarray, b: np.ndarray) -> str:
    """Say which net stores values with 16 bits that the other has with 32; empty if that is no difference.

    >>> rounding_of(np.float32([0.1, 0.7]), np.float32([0.1, 0.7]).astype(np.float16).astype(np.float32))
    "B are A's rounded to float16"
    """
    if a.dtype != np.float32 or a.shape != b.shape or a.size < 2:
        return ""
    with np.errstate(over="ignore"):
        for name, rounded in (("float16", _to_float16), ("bfloat16", _to_bfloat16)):
            if np.array_equal(rounded(a), b):
                return f"B are A's rounded to {name}"
            if np.array_equal(a, rounded(b)):
                return f"A are B's rounded to {name}"
    return ""


def _to_float16(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float16).astype(np.float32)


def _to_bfloat16(x: np.ndarray) -> np.ndarray:
    """Round to the nearest number with the upper 16 bits of a float32, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return rounded.astype(np.uint32).view(np.float32)


DENSE = frozenset({"Gemm", "MatMul"})
"""Operators of dense layers."""


def in_input_order(filters: np.ndarray, order: Sequence[int]) -> np.ndarray:
    """Return the filters of a convolution for input channels in another order.

    Those of a grouped one are reordered group by group, and left as they are where the order leads out of a
    group: no convolution in groups does the same then.
    """
    depth = filters.shape[1]
    num_groups = len(order) // depth
    if len(order) % depth or len(filters) % num_groups:
        return filters
    parts = []
    for group, rows in enumerate(np.split(filters, num_groups)):
        inner = [channel - group * depth for channel in order[group * depth : (group + 1) * depth]]
        if not all(0 <= channel < depth for channel in inner):
            return filters
        parts.append(rows[:, inner])
    return np.concatenate(parts)


def say_filters(case: Case, node_a: ir.Node, node_b: ir.Node, wanted: np.ndarray) -> tuple[str, str] | None:
    """Return the key and the words of the mismatch that reoriented or reordered filters; None if none did.

    Args:
        case: The case.
        node_a: A's node.
        node_b: B's node.
        wanted: What B's filters should be, as its node stores them.
    """
    filters_a, filters_b = filters_of(node_a), filters_of(node_b)
    if filters_a is None or filters_b is None:
        return None
    is_dense = node_a.op_type in DENSE
    if is_dense and are_same(filters_a, filters_b):
        return "flatten-order", "B flattens in another order (H, W, C for C, H, W), its dense weights do not"
    match = match_filters(outputs_first(node_b, wanted), filters_b)
    if match is None or not match.is_equal:
        return None
    orientation, inputs = match.change.orientation, match.change.order_along(INPUTS)
    if orientation:
        left_out = bool(case.orientation) and orientation == inverse(case.orientation)
        return (
            "axis-order",
            f"the filters of B are A's, {_not(case.orientation) if left_out else orientation}",
        )
    if inputs is not None and is_dense:
        if is_flatten_order(inputs):
            return "flatten-order", "B's dense weights expect their inputs in another order (flatten order)"
        return "column-order", f"B's dense weights have their inputs in another order: {_moved(inputs)}"
    if inputs is not None:
        return "channel-order", f"B's filters have A's input channels {listed_order(inputs)}"
    outputs = match.change.order_along(OUTPUTS)
    if outputs is not None:
        return (
            "channel-order",
            f"the output channels of B's filters are in the order {listed_order(outputs)}",
        )
    return None


def is_flatten_order(order: Sequence[int]) -> bool:
    """Return whether an order is that of an image's axes flattened otherwise.

    >>> is_flatten_order([0, 2, 4, 1, 3, 5]), is_flatten_order([0, 4, 2, 3, 1, 5])
    (True, False)
    """
    count, wanted = len(order), np.asarray(order)
    own = np.arange(count)
    factors = [size for size in range(1, count + 1) if count % size == 0]
    for first in factors:
        for second in (size for size in factors if (count // first) % size == 0):
            image = own.reshape(first, second, -1)
            if any(
                np.array_equal(image.transpose(axes).reshape(-1), wanted)
                for axes in itertools.permutations(range(3))
            ):
                return True
    return False


def _moved(order: Sequence[int]) -> str:
    """Say which entries of an order have moved."""
    moved = [i for i, source in enumerate(order) if source != i]
    if len(moved) == 2:
        return f"columns {moved[0]} and {moved[1]} are swapped"
    return f"{len(moved):,} of {len(order):,} columns are moved, {moved[0]} from {order[moved[0]]}"


def _not(orientation: str) -> str:
    """Say that filters were left out when the others were reoriented."""
    omitted = "not swapped in height and width" if orientation == SWAPPED else f"not {orientation}"
    return f"{omitted}, as the other layers are"


MODES = {"nearest": "the nearest pixel", "linear": "linearly between pixels", "cubic": "cubically"}


def resize_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose how A's node takes values between pixels: all settings of it at once.

    Taken apart they say nothing: what rounds to the nearest pixel has no meaning between pixels.
    """
    for node_a, node_b in case.pairs():
        if node_a.op_type != "Resize" or node_b.op_type != "Resize":
            continue
        settings = differences(node_a, node_b)
        if not settings:
            continue
        names = ["mode"] if "mode" in settings else list(settings)
        yield Proposal(
            mismatch=mismatch_key("Resize", names[0]),
            cause="; ".join(_cause(name, *settings[name]) for name in names),
            fix=resize_setting(case.b.graph.format, node_a, set(settings)),
            node_a=node_a,
            node_b=node_b,
            change=together(*(set_attribute(node_b.name, name, a) for name, (a, _) in settings.items())),
        )


def same_size(node_a: ir.Node, node_b: ir.Node) -> bool:
    """Return whether two nodes resize images to the same sizes, each by a factor or by a size."""
    sizes = [list(node.outputs[0].shape or ())[1:] for node in (node_a, node_b)]
    return sizes[0] == sizes[1] and all(isinstance(size, int) for size in sizes[0])


def _cause(name: str, a: Any, b: Any) -> str:
    if name == "mode":
        return f"A takes {MODES.get(a, a)} where it resizes, B {MODES.get(b, b)}"
    return f"{name} is {a} in A and {b} in B"
