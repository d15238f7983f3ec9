"""Folding of TensorFlow's graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from netweave.errors import UnsupportedError
from netweave.formats.tensorflow.attributes import DTYPES, Function
from netweave.formats.tensorflow.frames import FRAME, Frame, join_frames
from netweave.formats.tensorflow.nodes import Body, Node, Program, Ref
from netweave.formats.tensorflow.operands import Item, Open, Sizes, numbers_of, of_numbers
from netweave.graph.costs import MAX_LISTED, num_elements

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


# ``tf.nn.dropout`` is a division, a random mask and a product; ``tf.nn.batch_normalization`` is arithmetic
# around an ``Rsqrt``; a dilated convolution of TensorFlow 1 is a convolution between ``SpaceToBatchND`` and
# ``BatchToSpaceND``; a loop of TensorFlow 1 is a circle (``frames``). As single nodes they are what they
# are called, whatever they are written as.

ADDS = frozenset({"Add", "AddV2"})
RANDOM = frozenset({"RandomUniform", "StatelessRandomUniform", "StatelessRandomUniformV2"})
CONVOLUTIONS = frozenset({"Conv2D", "DepthwiseConv2dNative"})

MAX_STEPS = 6
"""How far behind a mask its random numbers are looked for."""

Nodes = "Mapping[str, Node]"


def simplify(body: Body) -> Body:
    """Return a body with the groups as single nodes; nodes that are left over are read by nobody."""
    nodes = dict(body.nodes)
    for node in body.nodes.values():
        if node.op in {"Mul", "SelectV2", "Select"}:
            joined = _dropout(node, nodes)
        elif node.op in ADDS or node.op == "Sub":
            joined = _normalisation(node, nodes)
        else:
            joined = None
        if joined is not None:
            nodes[node.name] = joined
    _dilated(Body(body.name, nodes, body.arguments, body.results), nodes)
    join_frames(nodes)
    return Body(body.name, nodes, body.arguments, body.results)


def _dropout(node: Node, nodes: Mapping[str, Node]) -> Node | None:
    """Return a Dropout for ``scaled * mask`` or ``where(mask, scaled, 0)``."""
    pairs = [(0, 1)] if node.op != "Mul" else [(0, 1), (1, 0)]
    for mask, scaled in pairs:
        if len(node.inputs) > scaled and _is_mask(node.inputs[mask], nodes):
            source, ratio = _unscaled(node.inputs[scaled], nodes)
            return Node(node.name, "Dropout", (source,), {"ratio": ratio}, node.line)
    return None


def _is_mask(ref: Ref, nodes: Mapping[str, Node]) -> bool:
    node = _behind_patterns(ref, nodes)
    return (
        node is not None
        and node.op in {"Floor", "GreaterEqual", "Greater", "Less"}
        and any(_is_random(source, nodes, MAX_STEPS) for source in node.inputs)
    )


def _is_random(ref: Ref, nodes: Mapping[str, Node], steps: int) -> bool:
    node = _behind_patterns(ref, nodes)
    if node is None or not steps:
        return False
    if node.op in RANDOM:
        return True
    return node.op in ADDS | {"Mul", "Sub"} and any(
        _is_random(source, nodes, steps - 1) for source in node.inputs
    )


def _unscaled(ref: Ref, nodes: Mapping[str, Node]) -> tuple[Ref, float | None]:
    """Return what a dropout scales up, and the ratio that it drops, if it is stored."""
    node = nodes.get(ref[0])
    if node is None or node.op not in {"RealDiv", "Div", "Mul"}:
        return ref, None
    for index in (1, 0) if node.op == "Mul" else (1,):
        number = _number(node.inputs[index], nodes)
        if number:
            keep = 1 / number if node.op == "Mul" else number
            return node.inputs[1 - index], 1 - keep
    return node.inputs[0], None


def _normalisation(node: Node, nodes: Mapping[str, Node]) -> Node | None:
    """Return a BatchNormalization for ``x * scale + (beta - mean * scale)``; ``scale`` holds the Rsqrt."""
    if len(node.inputs) != 2:
        return None
    for product, shift in ((0, 1), (1, 0)) if node.op in ADDS else ((0, 1),):
        left, right = nodes.get(node.inputs[product][0]), nodes.get(node.inputs[shift][0])
        if left is None or right is None or left.op != "Mul":
            continue
        beta, mean_part = _shift(right) if node.op in ADDS else (None, right)
        mean_node = nodes.get(mean_part[0]) if isinstance(mean_part, tuple) else mean_part
        if mean_node is None or mean_node.op != "Mul":
            continue
        shared = _common(left, mean_node)
        scale = _scale(shared[2], nodes) if shared else None
        if shared and scale:
            x, mean, _ = shared
            gamma, variance, eps = scale
            inputs = [x, mean, variance, *([gamma] if gamma else []), *([beta] if beta else [])]
            settings = {"epsilon": eps, "gamma": gamma is not None, "beta": beta is not None}
            return Node(node.name, "BatchNormalization", tuple(inputs), settings, node.line)
    return None


def _shift(node: Node) -> tuple[Ref | None, Ref]:
    """Return beta and ``mean * scale`` of the part that does not hold x."""
    if node.op == "Sub":
        return node.inputs[0], node.inputs[1]
    if node.op == "Neg":
        return None, node.inputs[0]
    return None, ("", 0)


def _common(left: Node, right: Node) -> tuple[Ref, Ref, Ref] | None:
    """Return x, mean and the factor that both products share."""
    for i in (0, 1):
        for j in (0, 1):
            if left.inputs[i] == right.inputs[j]:
                return left.inputs[1 - i], right.inputs[1 - j], left.inputs[i]
    return None


def _scale(ref: Ref, nodes: Mapping[str, Node]) -> tuple[Ref | None, Ref, float] | None:
    """Return gamma, variance and eps of ``rsqrt(variance + eps) * gamma``."""
    node = _behind_patterns(ref, nodes)
    if node is None:
        return None
    gamma: Ref | None = None
    root: Node | None = node
    if node.op == "Mul":
        roots = [_behind_patterns(source, nodes) for source in node.inputs]
        at = next((i for i, each in enumerate(roots) if each is not None and each.op == "Rsqrt"), None)
        if at is None:
            return None
        gamma, root = node.inputs[1 - at], roots[at]
    if root is None or root.op != "Rsqrt":
        return None
    total = _behind_patterns(root.inputs[0], nodes)
    if total is None or total.op not in ADDS:
        return None
    for index in (0, 1):
        eps = _number(total.inputs[index], nodes)
        if eps is not None:
            return gamma, total.inputs[1 - index], eps
    return None


def _dilated(body: Body, nodes: dict[str, Node]) -> None:
    """Write a convolution between SpaceToBatchND and BatchToSpaceND as a dilated one, in place."""
    readers = body.readers()
    for node in body.nodes.values():
        inner = nodes.get(node.inputs[0][0]) if node.op == "BatchToSpaceND" else None
        bias = inner if inner is not None and inner.op == "BiasAdd" else None
        convolution = nodes.get(bias.inputs[0][0]) if bias else inner
        if convolution is None or convolution.op not in CONVOLUTIONS:
            continue
        before = nodes.get(convolution.inputs[0][0])
        alone = all(len(readers[n.name]) == 1 for n in (convolution, *([bias] if bias else [])))
        if before is None or before.op != "SpaceToBatchND" or not alone:
            continue
        inputs = (before.inputs[0], convolution.inputs[1], *before.inputs[1:], node.inputs[2])
        dilated = replace(convolution, inputs=inputs, attributes={**convolution.attributes, "_dilated": True})
        if bias is None:
            nodes[node.name] = replace(dilated, name=node.name)
        else:
            nodes[convolution.name] = dilated
            nodes[node.name] = replace(bias, name=node.name)


def _behind_patterns(ref: Ref, nodes: Mapping[str, Node]) -> Node | None:
    """Return the node that makes a value, behind copies and changes of type."""
    node = nodes.get(ref[0])
    while node is not None and node.op in {"Identity", "Cast"} and node.inputs:
        node = nodes.get(node.inputs[0][0])
    return node


def _number(ref: Ref, nodes: Mapping[str, Node]) -> float | None:
    """Return a stored number."""
    node = _behind_patterns(ref, nodes)
    value = node.attributes.get("value") if node is not None and node.op == "Const" else None
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "iuf":
        return float(value.reshape(-1)[0])
    return None


MAX_NODES = 200_000
"""A net with more nodes is refused: functions are written out."""


def needed(program: Program, wanted: Sequence[Ref]) -> Iterator[Node]:
    """Yield the nodes that some outputs of the main graph need, each once, in the order of the file.

    Both branches of a condition are needed as long as nobody says which one is taken, so what stands behind
    a Switch is left out.
    """
    bodies: list[tuple[Body, Sequence[Ref]]] = [(program.main, wanted)]
    seen: set[str] = set()
    while bodies:
        body, refs = bodies.pop()
        seen.add(body.name)
        for node in _behind_reach(simplify(body), refs):
            yield node
            for name in _called(node, program):
                reached = program.functions[name]
                if reached.name not in seen:
                    bodies.append((reached, reached.results))


def check_written_out(program: Program) -> None:
    """Refuse functions that call one another so often that a net of them has no end.

    Raises:
        UnsupportedError: There are more than ``MAX_NODES`` nodes when every call is written out.
    """
    sizes: dict[str, int] = {}
    stack = [(name, False) for name in program.functions]
    while stack:
        name, done = stack.pop()
        if name in sizes and not done:
            continue
        nodes = program.functions[name].nodes.values()
        called = [inner for node in nodes for inner in _called(node, program)]
        if done:
            sizes[name] = len(nodes) + sum(sizes[inner] for inner in called)
            if sizes[name] > MAX_NODES:
                raise UnsupportedError(
                    f"the function {name!r} has more than {MAX_NODES:,} nodes when all that it calls is "
                    f"written out",
                    place=program.file,
                )
            continue
        sizes[name] = MAX_NODES  # what a function has that calls itself
        stack.append((name, True))
        stack += [(inner, False) for inner in called if inner not in sizes]


def _behind_reach(body: Body, refs: Sequence[Ref]) -> list[Node]:
    stack, names = [name for name, _ in refs], set()
    entering: set[str] = set()
    while stack:
        name = stack.pop()
        node = body.nodes.get(name)
        if name in names or node is None:
            continue
        names.add(name)
        if node.op not in {"Merge", "RefMerge"}:
            stack += [source for source, _ in node.inputs]
        if isinstance(frame := node.attributes.get(FRAME), Frame):
            stack += [source for source, _ in frame.inner()]
            entering.update(frame.constants)  # its loop reads these for it
    return [node for name, node in body.nodes.items() if name in names - entering]


def _called(node: Node, program: Program) -> list[str]:
    """Return the functions of the net that a node calls: those that it names, or the one that it is."""
    if node.op in {"If", "StatelessIf"}:
        return []  # only one of the branches is read
    named = [value.name for value in node.attributes.values() if isinstance(value, Function)]
    return [name for name in (node.op, *named) if name in program.functions]
