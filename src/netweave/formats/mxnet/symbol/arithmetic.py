"""Python's operators on symbols, with the operators and names that MXNet makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from netweave.errors import UsageError
from netweave.formats.mxnet.symbol.apply import apply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.formats.mxnet.symbol.vertex import Output

Number = int | float

PAIRS = {
    "plus": "elemwise_add",
    "minus": "elemwise_sub",
    "mul": "elemwise_mul",
    "div": "elemwise_div",
}
"""Operators of two symbols that are not called as their sign is; the others are ``_mod``, ``_equal``, ..."""


class Arithmetic:
    """Signs between symbols, and between a symbol and a number; sizes must be equal, as in MXNet."""

    outputs: tuple[Output, ...]

    def __init__(self, outputs: Sequence[Output]) -> None:
        self.outputs = tuple(outputs)

    def with_other(self, sign: str, other: Self | Number, *, scalar: str | None = None) -> Self:
        """Return what an operator makes of the symbol and another, or a number.

        Args:
            sign: ``plus``, ``mod``, ``greater``, ...
            other: The other operand.
            scalar: Name of the operator with a number, where it is not that of the sign.

        Raises:
            UsageError: The other is neither.
        """
        if isinstance(other, Arithmetic):
            op, hint = PAIRS.get(sign, f"_{sign}"), f"_{sign}"
            return type(self)(apply(op, [self.outputs, other.outputs], {}, settings={}, hint=hint))
        if not isinstance(other, int | float):
            raise UsageError(f"{sign}: one operand is {other!r:.60}, expected a symbol or a number")
        op = f"_{scalar or sign}_scalar"
        hint = op if op in COMPARED else f"_{scalar or sign}scalar"
        return type(self)(apply(op, [self.outputs], {}, settings={"scalar": other}, hint=hint))

    def __add__(self, other: Self | Number) -> Self:
        return self.with_other("plus", other)

    __radd__ = __add__

    def __sub__(self, other: Self | Number) -> Self:
        return self.with_other("minus", other)

    def __rsub__(self, other: Number) -> Self:
        return self.with_other("minus", other, scalar="rminus")

    def __mul__(self, other: Self | Number) -> Self:
        return self.with_other("mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Self | Number) -> Self:
        return self.with_other("div", other)

    def __rtruediv__(self, other: Number) -> Self:
        return self.with_other("div", other, scalar="rdiv")

    def __mod__(self, other: Self | Number) -> Self:
        return self.with_other("mod", other)

    def __rmod__(self, other: Number) -> Self:
        return self.with_other("mod", other, scalar="rmod")

    def __pow__(self, other: Self | Number) -> Self:
        return self.with_other("power", other)

    def __rpow__(self, other: Number) -> Self:
        return self.with_other("power", other, scalar="rpower")

    def __neg__(self) -> Self:
        return self.with_other("mul", -1.0)

    def __abs__(self) -> Self:
        return type(self)(apply("abs", [self.outputs], {}, settings={}))

    def __eq__(self, other: object) -> Self:  # type: ignore[override]  # MXNet compares element by element
        return self.with_other("equal", other)  # type: ignore[arg-type]  # with_other refuses what is no operand

    def __ne__(self, other: object) -> Self:  # type: ignore[override]  # MXNet compares element by element
        return self.with_other("not_equal", other)  # type: ignore[arg-type]  # with_other refuses what is no operand

    def __gt__(self, other: Self | Number) -> Self:
        return self.with_other("greater", other)

    def __ge__(self, other: Self | Number) -> Self:
        return self.with_other("greater_equal", other)

    def __lt__(self, other: Self | Number) -> Self:
        return self.with_other("lesser", other)

    def __le__(self, other: Self | Number) -> Self:
        return self.with_other("lesser_equal", other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise UsageError(
            "a symbol cannot be used as a condition: a == b is an operator of the net; compare the names "
            "instead"
        )


COMPARED = {
    f"_{sign}_scalar"
    for sign in ("equal", "not_equal", "greater", "greater_equal", "lesser", "lesser_equal", "rpower")
}
"""Operators with a number that MXNet names as they are called; the others lose an underscore."""
