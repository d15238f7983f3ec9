"""Checks of graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import prod

import onnx_ir as ir

# ``onnx-shape-inference`` takes the output's sizes from one input and leaves the others unread: a
# convolution whose weights want other channels, an addition that cannot be broadcast or a reshape that
# loses elements pass in silence. One function per family here says what does not fit; a size that is not
# known fits everything.

Sizes = tuple[int | None, ...]
"""Sizes of a tensor, None for a symbolic one."""

Check = Callable[[ir.Node, Sequence[Sizes | None]], None]
"""Raises ``ValueError`` with the reason, given the node and the sizes of its inputs, None if unknown."""


def known_shape(value: ir.Value | None) -> Sizes | None:
    """Return a value's sizes, None for a symbolic one; None as a whole if even the rank is unknown."""
    if value is None or value.shape is None:
        return None
    return tuple(dim if isinstance(dim, int) else None for dim in value.shape)


def check_inputs(node: ir.Node) -> None:
    """Raise ``ValueError`` with the reason if the sizes of a node's inputs do not fit together."""
    check = _CHECKS.get(node.op_type) if node.domain == "" else None
    if check is not None:
        check(node, [known_shape(value) for value in node.inputs])


def check_outputs(node: ir.Node) -> None:
    """Raise ``ValueError`` with the reason if the inferred sizes of a node's outputs cannot be."""
    check = _OUTPUT_CHECKS.get(node.op_type) if node.domain == "" else None
    if check is not None:
        check(node)


def _keeps_elements(node: ir.Node) -> None:
    if not node.inputs or node.inputs[0] is None:
        return
    before, after = node.inputs[0].shape, node.outputs[0].shape
    if before is None or after is None or _symbols(before) != _symbols(after):
        return
    count, new = (prod(dim for dim in shape if isinstance(dim, int)) for shape in (before, after))
    if count != new:
        raise ValueError(f"{before} has {count} elements, the new shape {after} has {new}")


def _leaves_something(node: ir.Node) -> None:
    sizes = known_shape(node.outputs[0])
    if sizes is not None and any(size is not None and size < 1 for size in sizes[2:]):
        raise ValueError(
            f"the padding is as wide as the image: the output would have the shape {list(sizes)}"
        )


def _symbols(shape: ir.Shape) -> Counter[str]:
    return Counter(str(dim) for dim in shape if not isinstance(dim, int))


def _given(shapes: Sequence[Sizes | None], index: int) -> Sizes | None:
    return shapes[index] if index < len(shapes) else None


def _input(node: ir.Node) -> str:
    return f"the input {node.inputs[0].shape if node.inputs[0] is not None else None}"


def _listed(node: ir.Node) -> str:
    return " and ".join(str(value.shape) for value in node.inputs if value is not None)


def _differ(a: int | None, b: int | None) -> bool:
    return a is not None and b is not None and a != b


def _windows_fit(node: ir.Node, x: Sizes, kernel: Sequence[int | None]) -> None:
    """Check that a window fits in the padded input, along each spatial axis."""
    if node.attributes.get_string("auto_pad", "NOTSET") in {"SAME_UPPER", "SAME_LOWER"}:
        return
    rank = len(kernel)
    pads = node.attributes.get_ints("pads", [0] * (2 * rank))
    dilations = node.attributes.get_ints("dilations", [1] * rank)
    if len(x) != rank + 2 or len(pads) != 2 * rank or len(dilations) != rank:
        return  # the inference rule reports these
    for axis, (size, window) in enumerate(zip(x[2:], kernel, strict=True)):
        if size is None or window is None:
            continue
        reach = (window - 1) * dilations[axis] + 1
        begin, end = pads[axis], pads[axis + rank]
        if reach > size + begin + end:
            raise ValueError(
                f"a window of {reach} does not fit in {size} elements with padding {begin} and {end}"
            )


def _conv(node: ir.Node, shapes: Sequence[Sizes | None]) -> None:
    x, w, b = (_given(shapes, index) for index in range(3))
    if x is None or w is None or len(x) != len(w) or len(w) < 3:
        return
    group = node.attributes.get_int("group", 1)
    _kernel_fits(node, w)
    if w[1] is not None and _differ(x[1], w[1] * group):
        per_group = f" in each of {group} groups" if group != 1 else ""
        raise ValueError(f"{_input(node)} has {x[1]} channels, the weights {list(w)} take {w[1]}{per_group}")
    if w[0] is not None and w[0] % group:
        raise ValueError(f"{w[0]} output channels cannot be divided into {group} groups")
    _vector(b, w[0], "bias")
    _windows_fit(node, x, w[2:])


def _conv_transpose(node: ir.Node, shapes: Sequence[Sizes | None]) -> None:
    x, w, b = (_given(shapes, index) for index in range(3))
    if x is None or w is None or len(x) != len(w) or len(w) < 3:
        return
    group = node.attributes.get_int("group", 1)
    _kernel_fits(node, w)
    if _differ(x[1], w[0]):
        raise ValueError(f"{_input(node)} has {x[1]} channels, the weights {list(w)} take {w[0]}")
    if w[0] is not None and w[0] % group:
        raise ValueError(f"{w[0]} input channels cannot be divided into {group} groups")
    _vector(b, None if w[1] is None else w[1] * group, "bias")


def _kernel_fits(node: ir.Node, w: Sizes) -> None:
    kernel = node.attributes.get_ints("kernel_shape", None)
    if kernel is None:
        return
    if len(kernel) != len(w) - 2 or any(_differ(a, b) for a, b in zip(kernel, w[2:], strict=True)):
        raise ValueError(f"kernel_shape is {list(kernel)}, the weights are {list(w)}")


def _vector(shape: Sizes | None, size: int | None, role: str) -> None:
    if shape is not None and (len(shape) != 1 or _differ(shape[0], size)):
        raise ValueError(f"the {role} has the shape {list(shape)}, expected [{size}]")


def _pool(node: ir.Node, shapes: Sequence[Sizes | None]) -> None:
    kernel = node.attributes.get_ints("kernel_shape", None)
    if shapes[0] is not None and kernel is not None:
        _windows_fit(node, shapes[0], kernel)


def _channel_vectors(node: ir.Node, shapes: Sequence[Sizes | None]) -> None:
    x = shapes[0]
    if x is None or len(x) < 2:
        return
    roles = ("scale", "bias", "mean", "variance")
    for shape, role in zip(shapes[1:], roles, strict=False):
        _vector(shape, x[1], role)


def _gemm(node: ir.Node, shapes: Sequence[Sizes | None]) -> None:
    a, b, c = (_given(shapes, index) for index in range(3))
    if a is None or b is None or c is None or len(a) != 2 or len(b) != 2:
        return
    rows = a[1] if node.attributes.get_int("transA", 0) else a[0]
    columns = b[0] if node.attributes.get_int("transB", 0) else b[1]
    _one_way(c, (rows, columns), "the addend")


def _one_way(shape: Sizes, target: Sizes, what: str) -> None:
    """Check that a shape can be broadcast to a target, which stays as it is."""
    fits = len(shape) <= len(target) and all(
        size in {1, None} or not _differ(size, goal)
        for size, goal in zip(shape[::-1], target[::-1], strict=False)
    )
    if not fits:
        raise ValueError(f"{what} {list(shape)} cannot be broadcast to {list(target)}")


def _prelu(node: ir.Node, shapes: Sequence[Sizes | None]) -> None:
    x, slope = shapes[:2]
    if x is not None and slope is not None:
        _one_way(slope, x, "the slope")


def _broadcast(node: ir.Node, shapes: Sequence[Sizes | None]) -> None:
    known = [shape for shape in shapes if shape is not None]
    rank = max((len(shape) for shape in known), default=0)
    for axis in range(1, rank + 1):
        sizes = {shape[-axis] for shape in known if len(shape) >= axis} - {1, None}
        if len(sizes) > 1:
            raise ValueError(f"{_listed(node)} cannot be broadcast: axis {rank - axis} differs")


def _concat(node: ir.Node, shapes: Sequence[Sizes | None]) -> None:
    known = [shape for shape in shapes if shape is not None]
    if not known or any(len(shape) != len(known[0]) for shape in known):
        return
    _axis(node, known)
    along = node.attributes.get_int("axis", 0) % len(known[0])
    for axis in range(len(known[0])):
        sizes = {shape[axis] for shape in known} - {None}
        if axis != along and len(sizes) > 1:
            raise ValueError(
                f"{_listed(node)} cannot be concatenated along axis {along}: axis {axis} differs"
            )


def _axis(node: ir.Node, shapes: Sequence[Sizes | None]) -> None:
    axis = node.attributes.get_int("axis", 0)
    rank = len(shapes[0]) if shapes[0] is not None else None
    if rank is not None and not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is not an axis of {_input(node)}")


def _transpose(node: ir.Node, shapes: Sequence[Sizes | None]) -> None:
    perm = node.attributes.get_ints("perm", None)
    if shapes[0] is not None and perm is not None and sorted(perm) != list(range(len(shapes[0]))):
        raise ValueError(f"{list(perm)} is not a permutation of the axes of {_input(node)}")


BROADCASTING = frozenset(
    {
        "Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater", "GreaterOrEqual",
        "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul", "Or", "Pow", "Sub", "Sum", "Where", "Xor",
    }
)  # fmt: skip
"""Operators whose inputs are broadcast against each other."""


def _split(node: ir.Node, shapes: Sequence[Sizes | None]) -> None:
    x, lengths = _given(shapes, 0), node.inputs[1] if len(node.inputs) > 1 else None
    if x is None or lengths is None or lengths.const_value is None:
        return
    _axis(node, [x])
    axis = node.attributes.get_int("axis", 0)
    total = int(lengths.const_value.numpy().sum())
    if _differ(x[axis], total):
        raise ValueError(f"{_input(node)} cannot be cut into parts of {total} elements along axis {axis}")


_CHECKS: dict[str, Check] = {
    **dict.fromkeys(BROADCASTING, _broadcast),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax", "ArgMax", "ArgMin"), _axis),
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), _pool),
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization"), _channel_vectors),
    "Concat": _concat,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    "PRelu": _prelu,
    "Split": _split,
    "Transpose": _transpose,
}

_OUTPUT_CHECKS: dict[str, Callable[[ir.Node], None]] = {
    "ConvTranspose": _leaves_something,
    "Reshape": _keeps_elements,
}
