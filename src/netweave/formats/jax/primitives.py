"""JAX's primitives as operators of ONNX.

A jaxpr is a list of equations, each a primitive over typed variables. ``Lowering`` keeps the value of each
variable and follows calls of other jaxprs (``jit``, ``custom_jvp_call``, ``scan``); a rule writes the
operators of one primitive. To add a primitive, write a function under ``@rule`` that returns its outputs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.errors import UnsupportedError
from netweave.formats.lowering.elementwise import find_function, find_operator
from netweave.graph import GraphBuilder

DTYPES = {
    "float32": ir.DataType.FLOAT, "float64": ir.DataType.DOUBLE, "float16": ir.DataType.FLOAT16,
    "bfloat16": ir.DataType.BFLOAT16, "bool": ir.DataType.BOOL,
    "int32": ir.DataType.INT64, "int64": ir.DataType.INT64, "uint32": ir.DataType.INT64,
}  # fmt: skip
"""Element types; whole numbers are those of indices, which are of 64 bits in ONNX."""

MAX_STEPS = 512
"""A loop of more steps is not written out."""

MAX_FOLDED = 1 << 22
"""Elements of an array that is computed while a function is read, such as a mask."""


@dataclass(slots=True)
class Tensor:
    """A variable's value.

    Attributes:
        value: A value of the graph, or an array that is known. It may still have to be broadcast.
        shape: The variable's sizes; whole numbers, or what JAX has for one that depends on the batch.
        dtype: Name of the variable's element type.
    """

    value: ir.Value | np.ndarray
    shape: tuple[Any, ...]
    dtype: str

    @property
    def is_known(self) -> bool:
        """True if it is an array that depends on no input or parameter."""
        return isinstance(self.value, np.ndarray)

    @property
    def array(self) -> np.ndarray:
        """The array that is known, with all its sizes.

        Raises:
            AssertionError: None is.
        """
        assert isinstance(self.value, np.ndarray)
        return np.broadcast_to(self.value, self.shape)

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)


Rule = Callable[["Equation"], "ir.Value | Sequence[ir.Value | Tensor]"]

RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for primitives."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


class Equation:
    """One equation while it is lowered.

    Args:
        builder: Where nodes are added.
        batch: The value that holds the batch size, a list of one number; None if no size is open.
        name: The primitive.
        params: Its settings.
        inputs: Its inputs.
        outputs: Sizes and element type of each output.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        batch: ir.Value | None,
        *,
        name: str,
        params: dict[str, Any],
        inputs: Sequence[Tensor],
        outputs: Sequence[tuple[tuple[Any, ...], str]],
    ) -> None:
        self.builder = builder
        self.batch = batch
        self.name = name
        self.params = params
        self.inputs = inputs
        self.outputs = outputs

    @property
    def shape(self) -> tuple[Any, ...]:
        """Sizes of the first output."""
        return self.outputs[0][0]

    def add(self, op_type: str, inputs: Sequence[ir.Value | None], **attributes: Any) -> ir.Value:
        """Add a node with one output."""
        return self.builder.add(op_type, inputs, attributes)

    def ints(self, numbers: Sequence[int]) -> ir.Value:
        """Add a constant list of whole numbers."""
        return self.builder.constant(list(numbers), dtype=np.int64)

    def scalar(self, number: float, like: str) -> ir.Value:
        """Add a constant number of an element type."""
        return self.builder.constant(number, dtype=DTYPES[like].numpy())

    def loose(self, index: int) -> ir.Value:
        """Return an input that may still have to be broadcast."""
        return self.value_of(self.inputs[index])

    def value_of(self, tensor: Tensor) -> ir.Value:
        """Return a value of the graph for a tensor that may still have to be broadcast."""
        if isinstance(tensor.value, ir.Value):
            return tensor.value
        return self.builder.constant(tensor.value, dtype=DTYPES[tensor.dtype].numpy())

    def whole(self, index: int) -> ir.Value:
        """Return an input with all its sizes."""
        return self.spread(self.inputs[index])

    def spread(self, tensor: Tensor) -> ir.Value:
        """Return a value with all sizes of a tensor."""
        value, shape = tensor.value, tensor.shape
        if isinstance(value, np.ndarray) and is_static(shape) and np.prod(shape, dtype=object) <= MAX_FOLDED:
            return self.value_of(Tensor(np.broadcast_to(value, shape), shape, tensor.dtype))
        own = tuple(value.shape) if isinstance(value, np.ndarray) else sizes_of(value)
        if (
            own is not None
            and len(own) == len(shape)
            and all(a != 1 or b == 1 for a, b in zip(own, shape, strict=True))
        ):
            return self.value_of(tensor)
        return self.add("Expand", [self.value_of(tensor), self.sizes(shape)])

    def sizes(self, shape: Sequence[Any]) -> ir.Value:
        """Return sizes as a list, in which those that depend on the batch are computed."""
        if is_static(shape):
            return self.ints([int(size) for size in shape])
        parts = [self.ints([int(size)]) if isinstance(size, int) else self._of_batch(size) for size in shape]
        return parts[0] if len(parts) == 1 else self.add("Concat", parts, axis=0)

    def _of_batch(self, size: Any) -> ir.Value:
        factor = factor_of(size)
        if self.batch is None or factor is None:
            raise self.unsupported(f"a size of {size}, expected a multiple of the batch")
        return self.batch if factor == 1 else self.add("Mul", [self.batch, self.ints([factor])])

    def reshaped(self, value: ir.Value, shape: Sequence[Any]) -> ir.Value:
        """Return a value with other sizes."""
        is_open = [not isinstance(size, int) for size in shape]
        if sum(is_open) > 1:
            return self.add("Reshape", [value, self.sizes(shape)])
        return self.add(
            "Reshape", [value, self.ints([-1 if o else int(s) for o, s in zip(is_open, shape, strict=True)])]
        )

    def transposed(self, value: ir.Value, perm: Sequence[int]) -> ir.Value:
        """Return a value with its axes in another order."""
        if list(perm) == list(range(len(perm))):
            return value
        return self.add("Transpose", [value], perm=[int(axis) for axis in perm])

    def unsupported(self, what: str) -> UnsupportedError:
        """Return the error for a form of the primitive that is not read."""
        return UnsupportedError(
            f"has JAX's {self.name} with {what}, which is not read; compare a dump of its tensors instead "
            "(docs/how-to/compare-with-a-dump.md)"
        )


def is_static(shape: Sequence[Any]) -> bool:
    """Return whether all sizes are whole numbers."""
    return all(isinstance(size, int) for size in shape)


def sizes_of(value: ir.Value) -> tuple[Any, ...] | None:
    """Return the inferred sizes of a value."""
    return (
        None
        if value.shape is None
        else tuple(value.shape.numpy() if value.shape.is_static() else value.shape)
    )


_MULTIPLE = re.compile(r"(?:(\d+)\*)?[^\W\d]\w*")


def factor_of(size: Any) -> int | None:
    """Return by how much the batch is multiplied in a size; None if the size is something else.

    >>> [factor_of(size) for size in ("b", "16*b", "b + 1")]
    [1, 16, None]
    """
    match = _MULTIPLE.fullmatch(str(size))
    return None if match is None else int(match[1] or 1)


# Element by element: the inputs need not be broadcast as long as the result is.

UNARY = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "erfc", "exp",
    "expm1", "floor", "log", "log1p", "logistic", "neg", "not", "rsqrt", "sign", "sin", "sinh", "sqrt",
    "square", "tan", "tanh",
)  # fmt: skip
"""Functions of each element that are what other frameworks call so too."""

BINARY = {
    **{name: find_operator(name) for name in ("add", "div", "mul", "pow", "sub")},
    "add_any": "Add", "and": "And", "eq": "Equal", "ge": "GreaterOrEqual", "gt": "Greater",
    "le": "LessOrEqual", "lt": "Less", "max": "Max", "min": "Min", "or": "Or", "xor": "Xor",
}  # fmt: skip
"""Operators on two tensors that are broadcast."""

LOGICAL = frozenset({"and", "not", "or", "xor"})


@rule(*UNARY)
def _unary(eq: Equation) -> ir.Value:
    _check_logical(eq)
    function = find_function(eq.name)
    assert function is not None  # as ``UNARY`` has it
    return function(_Adder(eq), operands(eq)[0])


@rule(*BINARY)
def _binary(eq: Equation) -> ir.Value:
    _check_logical(eq)
    return eq.add(BINARY[eq.name], operands(eq))


def _check_logical(eq: Equation) -> None:
    if eq.name in LOGICAL and eq.inputs[0].dtype != "bool":
        raise eq.unsupported("whole numbers bit by bit")


@dataclass(frozen=True, slots=True)
class _Adder:
    """Adds the nodes of a function that frameworks share."""

    equation: Equation

    def add(
        self, op_type: str, inputs: Sequence[ir.Value | None], attributes: Mapping[str, Any] | None = None
    ) -> ir.Value:
        return self.equation.builder.add(op_type, inputs, attributes)

    def scalar(self, number: float, like: ir.Value) -> ir.Value:
        return self.equation.scalar(number, self.equation.inputs[0].dtype)


def operands(eq: Equation) -> list[ir.Value]:
    """Return the inputs of an operator that works element by element, one of them with all sizes."""
    values = [eq.loose(index) for index in range(len(eq.inputs))]
    known = [shape for value in values if (shape := sizes_of(value)) is not None]
    together = all(
        any(axis <= len(sizes) and sizes[-axis] != 1 for sizes in known) or eq.shape[-axis] == 1
        for axis in range(1, len(eq.shape) + 1)
    )
    if together:
        return values
    largest = max(range(len(values)), key=lambda index: eq.inputs[index].rank)
    values[largest] = eq.whole(largest)
    return values


@rule("ne")
def _not_equal(eq: Equation) -> ir.Value:
    return eq.add("Not", [eq.add("Equal", operands(eq))])


@rule("rem")
def _remainder(eq: Equation) -> ir.Value:
    return eq.add("Mod", operands(eq), fmod=1)


@rule("integer_pow")
def _integer_pow(eq: Equation) -> ir.Value:
    x = eq.whole(0)
    return eq.add("Pow", [x, eq.scalar(eq.params["y"], eq.inputs[0].dtype)])


@rule("exp2")
def _exp2(eq: Equation) -> ir.Value:
    return eq.add("Pow", [eq.scalar(2, eq.inputs[0].dtype), eq.whole(0)])


@rule("cbrt")
def _cbrt(eq: Equation) -> ir.Value:
    x = eq.whole(0)
    third = eq.scalar(1 / 3, eq.inputs[0].dtype)
    return eq.add("Mul", [eq.add("Sign", [x]), eq.add("Pow", [eq.add("Abs", [x]), third])])


@rule("round")
def _round(eq: Equation) -> ir.Value:
    if int(eq.params["rounding_method"]) == 1:
        return eq.add("Round", [eq.whole(0)])
    x, half = eq.whole(0), eq.scalar(0.5, eq.inputs[0].dtype)
    up = eq.add("Floor", [eq.add("Add", [eq.add("Abs", [x]), half])])
    return eq.add("Mul", [eq.add("Sign", [x]), up])


@rule("is_finite")
def _is_finite(eq: Equation) -> ir.Value:
    x = eq.whole(0)
    return eq.add("Not", [eq.add("Or", [eq.add("IsInf", [x]), eq.add("IsNaN", [x])])])


@rule("clamp")
def _clamp(eq: Equation) -> ir.Value:
    low, x, high = (eq.loose(index) for index in range(3))
    return eq.add("Min", [eq.add("Max", [eq.whole(1) if eq.inputs[0].rank == 0 else x, low]), high])


@rule("select_n")
def _select(eq: Equation) -> ir.Value:
    if eq.inputs[0].dtype != "bool" or len(eq.inputs) != 3:
        raise eq.unsupported("a choice by number")
    which, no, yes = operands(eq)
    return eq.add("Where", [which, yes, no])


@rule("convert_element_type")
def _convert(eq: Equation) -> ir.Value | list[Tensor]:
    (shape, dtype), before = eq.outputs[0], eq.inputs[0]
    if dtype not in DTYPES:
        raise eq.unsupported(f"the element type {dtype}")
    if DTYPES[before.dtype] == DTYPES[dtype]:
        return [Tensor(before.value, shape, dtype)]
    value = eq.add("Cast", [eq.loose(0)], to=DTYPES[dtype])
    return [Tensor(value, shape, dtype)]


@rule(
    "stop_gradient",
    "copy",
    "copy_p",
    "optimization_barrier",
    "sharding_constraint",
    "name",
    "reduce_precision",
)
def _same(eq: Equation) -> list[Tensor]:
    return [
        Tensor(one.value, shape, dtype) for one, (shape, dtype) in zip(eq.inputs, eq.outputs, strict=True)
    ]


# Sizes and axes.


@rule("broadcast_in_dim")
def _broadcast(eq: Equation) -> list[Tensor]:
    """Return a value of the right rank; whoever reads it broadcasts it, if that is needed at all."""
    x, axes = eq.inputs[0], eq.params["broadcast_dimensions"]
    rank = len(eq.shape)
    sizes: list[Any] = [1] * rank
    if isinstance(x.value, np.ndarray):
        own = (
            np.broadcast_to(x.value, [s if isinstance(s, int) else 1 for s in x.shape])
            if x.value.ndim != x.rank
            else x.value
        )
        for axis, size in zip(axes, own.shape, strict=True):
            sizes[axis] = size
        return [Tensor(own.reshape(sizes), eq.shape, x.dtype)]
    value = eq.spread(x) if (sizes_of(x.value) is None or len(sizes_of(x.value) or ()) != x.rank) else x.value
    trailing = list(axes) == list(range(rank - len(axes), rank))
    missing = [axis for axis in range(rank) if axis not in axes]
    if missing and not (trailing and len(axes)):
        value = eq.add("Unsqueeze", [value, eq.ints(missing)])
    return [Tensor(value, eq.shape, x.dtype)]


@rule("reshape")
def _reshape(eq: Equation) -> ir.Value:
    if eq.params.get("dimensions") is not None:
        raise eq.unsupported("axes in another order")
    return eq.reshaped(eq.whole(0), eq.shape)


@rule("squeeze")
def _squeeze(eq: Equation) -> ir.Value:
    return eq.add("Squeeze", [eq.whole(0), eq.ints(eq.params["dimensions"])])


@rule("expand_dims")
def _expand_dims(eq: Equation) -> ir.Value:
    return eq.add("Unsqueeze", [eq.whole(0), eq.ints(eq.params["dimensions"])])


@rule("transpose")
def _transpose(eq: Equation) -> ir.Value:
    return eq.transposed(eq.whole(0), eq.params["permutation"])


@rule("concatenate")
def _concatenate(eq: Equation) -> ir.Value:
    return eq.add("Concat", [eq.whole(i) for i in range(len(eq.inputs))], axis=int(eq.params["dimension"]))


@rule("stack")
def _stack(eq: Equation) -> ir.Value:
    axis = int(eq.params["axis"])
    parts = [eq.add("Unsqueeze", [eq.whole(i), eq.ints([axis])]) for i in range(len(eq.inputs))]
    return eq.add("Concat", parts, axis=axis)


@rule("unstack")
def _unstack(eq: Equation) -> list[ir.Value]:
    axis, x = int(eq.params["axis"]), eq.whole(0)
    places = [eq.builder.constant(place, dtype=np.int64) for place in range(len(eq.outputs))]
    return [eq.add("Gather", [x, place], axis=axis) for place in places]


@rule("tile")
def _tile(eq: Equation) -> ir.Value:
    return eq.add("Tile", [eq.whole(0), eq.ints(eq.params["reps"])])


@rule("split")
def _split(eq: Equation) -> Sequence[ir.Value]:
    return eq.builder.add_many(
        "Split",
        [eq.whole(0), eq.ints(eq.params["sizes"])],
        {"axis": int(eq.params["axis"])},
        outputs=[""] * len(eq.outputs),
    )


@rule("pad")
def _pad(eq: Equation) -> ir.Value:
    config = eq.params["padding_config"]
    if any(inner for _, _, inner in config):
        raise eq.unsupported("padding between elements")
    pads = [int(low) for low, _, _ in config] + [int(high) for _, high, _ in config]
    return eq.add("Pad", [eq.whole(0), eq.ints(pads), eq.loose(1)], mode="constant")


@rule("slice")
def _slice(eq: Equation) -> ir.Value:
    starts, ends = eq.params["start_indices"], eq.params["limit_indices"]
    steps = eq.params["strides"] or [1] * len(starts)
    return sliced(eq, eq.whole(0), starts, ends, steps, eq.inputs[0].shape)


def sliced(
    eq: Equation,
    x: ir.Value,
    starts: Sequence[Any],
    ends: Sequence[Any],
    steps: Sequence[int],
    shape: Sequence[Any],
) -> ir.Value:
    """Return a part of a value, cut along the axes of which it is not the whole."""
    rows = [
        (axis, start, end, step)
        for axis, (start, end, step, size) in enumerate(zip(starts, ends, steps, shape, strict=True))
        if not (isinstance(start, int) and start == 0 and str(end) == str(size) and step == 1)
    ]
    if not rows:
        return x
    if not all(isinstance(start, int) and isinstance(end, int) for _, start, end, _ in rows):
        raise eq.unsupported("a part of the batch")
    axes, starts, ends, steps = zip(*rows, strict=True)
    return eq.add("Slice", [x, eq.ints(starts), eq.ints(ends), eq.ints(axes), eq.ints(steps)])


@rule("rev")
def _reverse(eq: Equation) -> ir.Value:
    axes = [int(axis) for axis in eq.params["dimensions"]]
    return reverse(eq, eq.whole(0), axes)


def reverse(eq: Equation, x: ir.Value, axes: Sequence[int]) -> ir.Value:
    """Return a value with some axes the other way round."""
    count = len(axes)
    least = np.iinfo(np.int64).min
    return eq.add(
        "Slice", [x, eq.ints([-1] * count), eq.ints([least] * count), eq.ints(axes), eq.ints([-1] * count)]
    )


@rule("iota")
def _iota(eq: Equation) -> list[Tensor]:
    axis, (shape, dtype) = eq.params["dimension"], eq.outputs[0]
    if not isinstance(shape[axis], int):
        raise eq.unsupported("as many numbers as the batch has examples")
    sizes = [1] * len(shape)
    sizes[axis] = shape[axis]
    return [Tensor(np.arange(shape[axis]).reshape(sizes), shape, dtype)]


@rule("dim_as_value")
def _size(eq: Equation) -> ir.Value:
    """Return a size that depends on the batch as a number."""
    return eq.add("Squeeze", [eq.sizes([eq.params["dim"]]), eq.ints([0])])


@rule("dynamic_slice")
def _dynamic_slice(eq: Equation) -> ir.Value:
    sizes, shape = eq.params["slice_sizes"], eq.inputs[0].shape
    starts = eq.inputs[1 : 1 + len(shape)]
    cut = [axis for axis in range(len(shape)) if str(sizes[axis]) != str(shape[axis])]
    if not cut:
        return eq.whole(0)
    if all(starts[axis].is_known for axis in cut):
        # JAX moves a part that would end behind the array back into it
        begin = [
            min(max(int(starts[a].array), 0), int(shape[a] - sizes[a])) if a in cut else 0
            for a in range(len(shape))
        ]
        ends = [begin[a] + int(sizes[a]) if a in cut else shape[a] for a in range(len(shape))]
        return sliced(eq, eq.whole(0), begin, ends, [1] * len(shape), shape)
    limits = [int(shape[axis] - sizes[axis]) for axis in cut]
    lists = [eq.add("Unsqueeze", [eq.value_of(starts[axis]), eq.ints([0])]) for axis in cut]
    begins = eq.add("Concat", lists, axis=0)
    begins = eq.add("Max", [eq.add("Min", [begins, eq.ints(limits)]), eq.ints([0] * len(cut))])
    ends_of = eq.add("Add", [begins, eq.ints([int(sizes[axis]) for axis in cut])])
    return eq.add("Slice", [eq.whole(0), begins, ends_of, eq.ints(cut)])


@rule("gather")
def _gather(eq: Equation) -> ir.Value:
    """Write the uses of JAX's gather: parts at known places, rows of a table, elements by several indices.

    Follows XLA's Gather: ``start_index_map`` says which axes of the operand the last axis of the indices is
    for, ``offset_dims`` where the axes of the window come to lie.
    """
    names, window = eq.params["dimension_numbers"], eq.params["slice_sizes"]
    operand, indices = eq.inputs[0], eq.inputs[1]
    axes, collapsed = list(names.start_index_map), list(names.collapsed_slice_dims)
    batching = list(getattr(names, "operand_batching_dims", ()))
    of_indices = list(getattr(names, "start_indices_batching_dims", ()))
    if indices.is_known and indices.rank == 1 and not batching:
        places = [int(number) for number in indices.array.reshape(-1)]
        starts: list[Any] = [0] * operand.rank
        for axis, place in zip(axes, places, strict=True):
            starts[axis] = min(max(place, 0), operand.shape[axis] - window[axis])
        ends = [
            s + w if a in axes else operand.shape[a]
            for a, (s, w) in enumerate(zip(starts, window, strict=True))
        ]
        x = sliced(eq, eq.whole(0), starts, ends, [1] * operand.rank, operand.shape)
        return eq.add("Squeeze", [x, eq.ints(collapsed)]) if collapsed else x
    if sorted(collapsed) != sorted(axes) or any(
        str(window[axis]) != str(operand.shape[axis])
        for axis in range(operand.rank)
        if axis not in axes and axis not in batching
    ):
        raise eq.unsupported("a window at computed places")
    rest = [axis for axis in range(operand.rank) if axis not in axes and axis not in batching]
    free = [axis for axis in range(indices.rank - 1) if axis not in of_indices]
    if len(axes) == 1 and not batching:
        x = eq.add(
            "Gather",
            [eq.whole(0), eq.add("Squeeze", [eq.whole(1), eq.ints([indices.rank - 1])])],
            axis=axes[0],
        )
        before = sum(axis < axes[0] for axis in rest)
        made = (
            [("w", i) for i in range(before)]
            + [("i", i) for i in free]
            + [("w", i) for i in range(before, len(rest))]
        )
    else:
        x = eq.transposed(eq.whole(0), [*batching, *axes, *rest])
        at = eq.transposed(eq.whole(1), [*of_indices, *free, indices.rank - 1])
        x = eq.add("GatherND", [x, at], batch_dims=len(batching))
        made = [("i", i) for i in [*of_indices, *free]] + [("w", i) for i in range(len(rest))]
    offsets, from_indices = iter(range(len(rest))), iter(range(indices.rank - 1))
    wanted = [
        ("w", next(offsets)) if axis in names.offset_dims else ("i", next(from_indices))
        for axis in range(len(eq.shape))
    ]
    return eq.transposed(x, [made.index(each) for each in wanted])
