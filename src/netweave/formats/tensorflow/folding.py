"""Operators on constants and sizes, computed while the net is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.formats.tensorflow.attributes import DTYPES
from netweave.formats.tensorflow.operands import Item, Open, Sizes, numbers_of, of_numbers
from netweave.graph.budget import MAX_LISTED, num_elements

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from netweave.formats.tensorflow.nodes import Node

Arrays = list[np.ndarray]


def can_fold(op: str) -> bool:
    """Return whether there is an operator of this name that is computed while the net is read."""
    return op in _RULES


def fold(node: Node, inputs: Sequence[Item]) -> list[Item] | None:
    """Return what a node makes of constants and sizes; None if it cannot be said."""
    rule = _RULES.get(node.op)
    arrays = [numbers_of(item) for item in inputs]
    if rule is None or any(array is None or array.size > MAX_LISTED for array in arrays):
        return None
    if _most_elements(node, [array for array in arrays if array is not None]) > MAX_LISTED:
        return None
    dtype = next((item.dtype for item in inputs if isinstance(item, Sizes)), None)
    with np.errstate(all="ignore"):
        try:
            result = rule(node, [array for array in arrays if array is not None])
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return None
    if result is None:
        return None
    results = result if isinstance(result, list) else [result]
    if any(result.size > MAX_LISTED for result in results):
        return None
    return [of_numbers(np.asarray(result), dtype or np.dtype(np.int32)) for result in results]


def _most_elements(node: Node, arrays: Arrays) -> int:
    """Return a bound of the elements that a node makes, before it makes them."""
    if node.op in _JOINING:
        return sum(array.size for array in arrays)
    if node.op in _GATHERING:
        table, indices = arrays[0], arrays[1]
        return table.size // max(1, min(table.shape, default=1)) * indices.size
    if node.op in _WITHOUT_BROADCAST:
        return 0  # as many as the first input has at most, or checked by its own rule
    try:
        count = num_elements(np.broadcast_shapes(*(array.shape for array in arrays)))
    except ValueError:
        return 0  # the rule says so
    return MAX_LISTED + 1 if count is None else count


def _arithmetic(function: Callable[..., Any]) -> Any:
    def rule(node: Node, inputs: Arrays) -> np.ndarray:
        array = np.asarray(function(*inputs))
        if array.dtype != object and array.dtype.kind in "if" and inputs[0].dtype != object:
            array = array.astype(inputs[0].dtype)
        return array

    return rule


def _compare(function: Callable[..., Any]) -> Any:
    def rule(node: Node, inputs: Arrays) -> np.ndarray | None:
        if any(array.dtype == object for array in inputs):
            return None
        return np.asarray(function(*inputs))

    return rule


def _whole_division(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype == object or b.dtype == object:
        return np.asarray(a // b)
    return np.asarray(np.floor_divide(a, b))


def _division(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    whole = a.dtype.kind in "iu"
    return np.asarray(np.trunc(a / b).astype(a.dtype) if whole else a / b)


def _reduced(function: Callable[..., Any]) -> Any:
    def rule(node: Node, inputs: Arrays) -> np.ndarray:
        array, axes = inputs
        keep = bool(node.attributes.get("keep_dims"))
        chosen = tuple(int(axis) for axis in axes.reshape(-1))
        return np.asarray(function(array, axis=chosen, keepdims=keep), dtype=array.dtype)

    return rule


def _cast(node: Node, inputs: Arrays) -> np.ndarray | None:
    dtype = DTYPES.get(str(node.attributes.get("DstT")))
    if inputs[0].dtype == object:
        return inputs[0] if dtype is not None and dtype.kind in "iu" else None
    return None if dtype is None else inputs[0].astype(dtype)


def _pack(node: Node, inputs: Arrays) -> np.ndarray:
    return np.stack(_same_type(inputs), axis=int(node.attributes.get("axis") or 0))


def _unpack(node: Node, inputs: Arrays) -> list[np.ndarray]:
    axis = int(node.attributes.get("axis") or 0)
    return [np.asarray(piece) for piece in np.moveaxis(inputs[0], axis, 0)]


def _concat(node: Node, inputs: Arrays) -> np.ndarray:
    *arrays, axis = inputs if node.op == "ConcatV2" else [*inputs[1:], inputs[0]]
    return np.concatenate(_same_type(arrays), axis=int(axis))


def _same_type(arrays: Arrays) -> Arrays:
    return [array.astype(object) for array in arrays] if any(a.dtype == object for a in arrays) else arrays


def _slice(node: Node, inputs: Arrays) -> np.ndarray:
    array, begin, size = inputs
    picked = tuple(
        slice(int(b), int(b) + int(s) if s != -1 else None)
        for b, s in zip(begin.reshape(-1), size.reshape(-1), strict=True)
    )
    return array[picked]


def _strided_slice(node: Node, inputs: Arrays) -> np.ndarray:
    array, begin, end, strides = inputs
    index = strided_index(node, *([int(n) for n in array.reshape(-1)] for array in (begin, end, strides)))
    return np.asarray(array[index])


def strided_index(
    node: Node, begin: Sequence[int], end: Sequence[int], strides: Sequence[int]
) -> tuple[Any, ...]:
    """Return NumPy's index for the five masks of a StridedSlice."""
    masks = {
        name: int(node.attributes.get(f"{name}_mask") or 0)
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    items: list[Any] = []
    for place, (first, last, step) in enumerate(zip(begin, end, strides, strict=True)):
        bit = 1 << place
        if masks["ellipsis"] & bit:
            items.append(Ellipsis)
        elif masks["new_axis"] & bit:
            items.append(None)
        elif masks["shrink_axis"] & bit:
            items.append(first)
        else:
            items.append(
                slice(
                    None if masks["begin"] & bit else first, None if masks["end"] & bit else last, step or 1
                )
            )
    return tuple(items)


def _gather(node: Node, inputs: Arrays) -> np.ndarray:
    axis = int(inputs[2]) if len(inputs) > 2 else 0
    return np.asarray(np.take(inputs[0], inputs[1].astype(np.int64), axis=axis))


def _squeeze(node: Node, inputs: Arrays) -> np.ndarray:
    axes = node.attributes.get("squeeze_dims") or None
    return np.squeeze(inputs[0], axis=tuple(axes) if axes else None)


def _expand(node: Node, inputs: Arrays) -> np.ndarray:
    return np.expand_dims(inputs[0], int(inputs[1]))


def _reshape(node: Node, inputs: Arrays) -> np.ndarray | None:
    if inputs[1].dtype == object:
        return None
    return inputs[0].reshape([int(size) for size in inputs[1].reshape(-1)])


def _fill(node: Node, inputs: Arrays) -> np.ndarray | None:
    if inputs[0].dtype == object:
        return None
    sizes = [int(size) for size in inputs[0].reshape(-1)]
    count = num_elements(sizes)
    return None if count is None or count > MAX_LISTED else np.full(sizes, inputs[1])


def _range(node: Node, inputs: Arrays) -> np.ndarray | None:
    if any(array.dtype == object for array in inputs) or not inputs[2]:
        return None
    if abs((int(inputs[1]) - int(inputs[0])) / int(inputs[2])) > MAX_LISTED:
        return None
    return np.arange(*(array.item() for array in inputs), dtype=inputs[0].dtype)


def _select(node: Node, inputs: Arrays) -> np.ndarray | None:
    return None if inputs[0].dtype == object else np.where(inputs[0], inputs[1], inputs[2])


def _product(array: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    return np.asarray(np.prod(array, axis=axis, keepdims=keepdims))


def _minmax(which: Any) -> Any:
    def of(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if a.dtype == object or b.dtype == object:
            if any(isinstance(n, Open) for n in (*a.flat, *b.flat)):
                return np.asarray(np.frompyfunc(lambda *_: Open(), 2, 1)(a, b), dtype=object)
            a, b = a.astype(np.int64), b.astype(np.int64)
        return np.asarray(which(a, b))

    return of


def _slice_of_shape(node: Node, inputs: Arrays) -> np.ndarray:
    return np.asarray(inputs[0].size)


_REDUCTIONS = ("all", "any", "max", "mean", "min", "sum")
_COMPARISONS = (
    *("equal", "greater", "greater_equal", "less", "less_equal", "not_equal"),
    *("logical_and", "logical_not", "logical_or"),
)

_RULES: dict[str, Any] = {
    **{word.title().replace("_", ""): _compare(getattr(np, word)) for word in _COMPARISONS},
    **{word.title(): _reduced(getattr(np, word)) for word in _REDUCTIONS},
    **{
        word.title(): _arithmetic(getattr(np, word))
        for word in ("abs", "add", "ceil", "floor", "reciprocal", "round", "sqrt", "square")
    },
    **dict.fromkeys(("Concat", "ConcatV2"), _concat),
    **dict.fromkeys(("Div", "RealDiv"), _arithmetic(_division)),
    **dict.fromkeys(("Gather", "GatherV2"), _gather),
    **dict.fromkeys(("Select", "SelectV2"), _select),
    "AddV2": _arithmetic(np.add),
    "Cast": _cast,
    "ExpandDims": _expand,
    "Fill": _fill,
    "FloorDiv": _arithmetic(_whole_division),
    "FloorMod": _arithmetic(np.mod),
    "Maximum": _arithmetic(_minmax(np.maximum)),
    "Minimum": _arithmetic(_minmax(np.minimum)),
    "Mul": _arithmetic(np.multiply),
    "Neg": _arithmetic(np.negative),
    "Pack": _pack,
    "Prod": _reduced(_product),
    "Range": _range,
    "Reshape": _reshape,
    "Rsqrt": _arithmetic(lambda x: 1 / np.sqrt(x)),
    "Size": _slice_of_shape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "StridedSlice": _strided_slice,
    "Sub": _arithmetic(np.subtract),
    "Unpack": _unpack,
}
"""What is computed while the net is read, by operator."""

_JOINING = {"Concat", "ConcatV2", "Pack"}
_GATHERING = {"Gather", "GatherV2"}
_RESHAPING = ("ExpandDims", "Fill", "Prod", "Range", "Reshape", "Slice", "Squeeze", "StridedSlice", "Unpack")
_WITHOUT_BROADCAST = {*_RESHAPING, *(word.title() for word in _REDUCTIONS)}
