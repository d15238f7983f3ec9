"""MXNet's codes for new shapes, and reshaping where some sizes are still open (matrix_op-inl.h)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.formats.mxnet.symbol.context import MXNetOperator

Size = int | tuple[int, ...]
"""A size of the result: a number, or the product of sizes of the input, given by their axes."""

INFER = -1
"""The one size that follows from the others."""


def sizes_from_codes(codes: Sequence[int], shape: Sequence[int | None], *, reverse: bool) -> list[Size]:
    """Return the sizes that MXNet's ``shape`` codes stand for.

    A number takes the place of one size of the input; 0 copies it; -1 is inferred; -2 copies all that are
    left; -3 joins two; ``-4, a, b`` splits one in two, of which one may be -1. With ``reverse`` all is
    counted from the end.

    Args:
        codes: The setting ``shape``.
        shape: Sizes of the input.
        reverse: The setting ``reverse``.

    Raises:
        ValueError: There are no such codes, whatever the input.
        LookupError: The codes need more axes than the input has.

    >>> sizes_from_codes([-4, -1, 2, -2], (4, 3, None), reverse=False)
    [2, 2, (1,), (2,)]
    """
    rank = len(shape)
    if reverse:
        if -4 in codes:
            raise ValueError("-4 cannot be combined with reverse")
        sizes = sizes_from_codes(list(reversed(codes)), list(reversed(shape)), reverse=False)
        turned = [tuple(rank - 1 - axis for axis in s) if isinstance(s, tuple) else s for s in sizes]
        return list(reversed(turned))
    sizes = []
    left = list(range(rank))
    rest = list(codes)
    while rest:
        sizes += _sizes_of_code(rest, left, shape)
    return sizes


def _sizes_of_code(rest: list[int], left: list[int], shape: Sequence[int | None]) -> list[Size]:
    """Take one code off ``rest`` and the axes that it uses off ``left``; return its sizes."""
    code = rest.pop(0)
    if code == -2:
        copied: list[Size] = [(axis,) for axis in left]
        left.clear()
        return copied
    num_used = 2 if code == -3 else 1
    if len(left) < num_used and code in {0, -3, -4}:
        raise LookupError(f"the code {code} needs another axis, but the input has only {len(shape)}")
    used = tuple(left[:num_used])
    del left[:num_used]
    if code == -4:
        return _split(rest, shape[used[0]])
    if code < -4:
        raise ValueError(f"unknown code {code}")
    return [used if code in {0, -3} else code]


def _split(rest: list[int], size: int | None) -> list[Size]:
    if len(rest) < 2:
        raise ValueError("-4 needs two sizes after it")
    first, second = rest.pop(0), rest.pop(0)
    if size is not None and (first == INFER) != (second == INFER):
        known = max(first, second, 1)
        return [size // known if first == INFER else first, size // known if second == INFER else second]
    return [first, second]


def reshape(ctx: MXNetOperator, x: ir.Value, sizes: Sequence[Size]) -> ir.Value:
    """Reshape a value; sizes that are still open are copied, inferred, or computed by the net."""
    shape = ctx.shape(x)
    numbers = [_number(size, place, shape) for place, size in enumerate(sizes)]
    if INFER not in numbers and numbers.count(None) == 1:
        numbers[numbers.index(None)] = INFER
    numbers = _with_open_batch(numbers, shape)
    known = [number for number in numbers if number is not None]
    if len(known) == len(numbers):
        return ctx.reshape(x, known)
    parts = [
        ctx.integers([number]) if number is not None else _computed(ctx, x, size)
        for number, size in zip(numbers, sizes, strict=True)
    ]
    return ctx.add("Reshape", [x, ctx.concat(parts, 0)])


def _number(size: Size, place: int, shape: Sequence[int | None]) -> int | None:
    """Return ONNX's number for a size: 0 copies the one in the same place; None is not known."""
    if isinstance(size, int):
        return size
    known = [shape[axis] for axis in size]
    if None not in known:
        return prod(number for number in known if number is not None)
    return 0 if size == (place,) else None


def _with_open_batch(numbers: list[int | None], shape: Sequence[int | None]) -> list[int | None]:
    """Leave the first size open where a file writes out the batch size, which a Graph leaves open."""
    if (
        not numbers
        or None in shape[1:]
        or shape[0] is not None
        or any(n in {None, 0, INFER} for n in numbers)
    ):
        return numbers
    total = prod(number for number in numbers if number is not None)
    per_element = prod(size for size in shape[1:] if size is not None)
    batch = total // per_element if per_element and total % per_element == 0 else 0
    return [INFER, *numbers[1:]] if batch and (numbers[0] or 0) % batch == 0 else numbers


def _computed(ctx: MXNetOperator, x: ir.Value, size: Size) -> ir.Value:
    assert isinstance(size, tuple)
    sizes = ctx.add("Gather", [ctx.add("Shape", [x]), ctx.integers(size)])
    return ctx.add("ReduceProd", [sizes], {"keepdims": 1})
