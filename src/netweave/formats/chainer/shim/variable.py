"""Variables that hold no numbers: values of the graph, with the arithmetic that code may do with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import CodeError
from netweave.formats.chainer.shim.recorder import Size, current, is_recording
from netweave.formats.chainer.shim.registry import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import onnx_ir as ir


def _call(name: str, *args: Any, **kwargs: Any) -> Variable:
    return FUNCTIONS[name](*args, **kwargs)


def _sign(name: str) -> tuple[Callable[[Any, Any], Variable], Callable[[Any, Any], Variable]]:
    """Return a function of two variables as a sign of Python's, and as the sign with its sides swapped."""
    return lambda self, other: _call(name, self, other), lambda self, other: _call(name, other, self)


class Variable:
    """A value of the graph (``chainer.Variable``).

    Args:
        data: An array, or a variable; arrays become constants.
        name: Ignored.
        requires_grad: Ignored.
        value: The value of the graph, if it is there already.
    """

    __array_priority__ = 200

    def __init__(
        self,
        data: Any = None,
        *,
        name: str | None = None,
        requires_grad: bool = True,
        value: ir.Value | None = None,
    ) -> None:
        self.name = name
        self.requires_grad = requires_grad
        self._value = value if value is not None or data is None else current().as_value(data)

    @property
    def value(self) -> ir.Value:
        """The value of the graph."""
        if self._value is None:
            raise CodeError("uses a variable without an array")
        return self._value

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes; the batch is a ``Size``, which stays open where it is only passed on."""
        return current().shape(self.value)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return current().num_axes(self.value)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        assert self.value.dtype is not None
        return np.dtype(self.value.dtype.numpy())

    @property
    def data(self) -> Variable:
        """The variable itself: there is no array, and what is computed from it is recorded as well."""
        return self

    array = data

    @property
    def xp(self) -> Any:
        """NumPy."""
        return np

    @property
    def T(self) -> Variable:  # noqa: N802 (NumPy's name)
        """With its axes the other way round."""
        return self.transpose()

    @property
    def grad(self) -> None:
        """Nothing: gradients are not recorded."""

    def __len__(self) -> int:
        return current().length(self.value)

    def __iter__(self) -> Iterator[Variable]:
        return (self[index] for index in range(len(self)))

    def __bool__(self) -> bool:
        raise CodeError(
            "has a condition that depends on the values of a variable, which are unknown when Netweave "
            "traces the model"
        )

    def __float__(self) -> float:
        raise CodeError("reads the value of a variable, which is unknown when Netweave traces the model")

    __int__ = __index__ = __float__

    def __getitem__(self, key: Any) -> Variable:
        return _call("get_item", self, key)

    __add__, __radd__ = _sign("add")
    __sub__, __rsub__ = _sign("sub")
    __mul__, __rmul__ = _sign("mul")
    __truediv__, __rtruediv__ = _sign("div")
    __pow__, __rpow__ = _sign("pow")
    __matmul__, __rmatmul__ = _sign("matmul")

    def __floordiv__(self, other: Any) -> Variable:
        return _call("floor", _call("div", self, other))

    def __rfloordiv__(self, other: Any) -> Variable:
        return _call("floor", _call("div", other, self))

    def __neg__(self) -> Variable:
        return _call("neg", self)

    def __abs__(self) -> Variable:
        return _call("absolute", self)

    def reshape(self, *shape: Any) -> Variable:
        """Other sizes."""
        return _call("reshape", self, _one(shape))

    def transpose(self, *axes: Any) -> Variable:
        """Axes in another order."""
        return _call("transpose", self, _one(axes) if axes else None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in _METHODS:
            return lambda *args, **kwargs: _call(name, self, *args, **kwargs)
        raise CodeError(f"uses Variable.{name}, which is not supported")


_METHODS = {"astype", "max", "mean", "min", "sum", "squeeze", "flatten", "dot"}
"""Methods that are functions of the same name."""


class Parameter(Variable):
    """A stored array of a link (``chainer.Parameter``).

    Args:
        initializer: Ignored: first values are drawn by Netweave.
        shape: Its sizes; None until the first call of its link.
        name: Its name in the link.
        role: See ``netweave.graph.Parameter``.
    """

    def __init__(
        self,
        initializer: Any = None,
        shape: int | Sequence[int] | None = None,
        name: str | None = None,
        *,
        role: str = "weight",
        is_trainable: bool = True,
    ) -> None:
        super().__init__(name=name)
        given = shape if shape is not None else getattr(initializer, "shape", None)
        self._shape = None if given is None else _sizes(given)
        self.initializer = initializer
        self.role = role
        self.is_trainable = is_trainable
        self.path = ""
        self._is_called = False
        self._first: tuple[int, ...] | None = None

    @property
    def is_initialized(self) -> bool:
        """True if its sizes are known."""
        return self._shape is not None

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        if self._shape is None:
            raise CodeError(f"reads the shape of {self.name!r} before its link was called")
        return self._shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def value(self) -> ir.Value:
        """Its initializer."""
        return current().parameter(self)

    @property
    def data(self) -> Any:
        """The parameter itself, or nothing while its sizes are not known."""
        return self if self.is_initialized else None

    array = data

    def __setitem__(self, key: Any, value: Any) -> None:
        """Leave out first values, which are Netweave's own; a call may not change what is stored."""
        if is_recording():
            raise CodeError(f"changes the stored array {self.name!r} during the call of the model")

    def forget(self) -> None:
        """Have the sizes again that were known before the first call."""
        if not self._is_called:
            self._is_called, self._first = True, self._shape
        self._shape = self._first

    def initialize(self, shape: int | Sequence[int]) -> None:
        """Take sizes that were not known before."""
        self._shape = _sizes(shape)


def _sizes(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (int(shape),) if isinstance(shape, int | np.integer) else tuple(int(size) for size in shape)


def _one(arguments: tuple[Any, ...]) -> Any:
    return arguments[0] if len(arguments) == 1 and isinstance(arguments[0], list | tuple) else arguments


__all__ = ["Parameter", "Size", "Variable"]
