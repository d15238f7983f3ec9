"""Arrays of MXNet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from netweave.errors import RunError, UsageError
from netweave.formats.mxnet.symbol.reshaping import sizes_from_codes
from netweave.mxnet.context import Context, context_of
from netweave.mxnet.operators import find_operator
from netweave.mxnet.recording import GRAD_REQS, is_recording, run_backward, scope


def select(tensor: Tensor, key: Any) -> Tensor:
    """Return the elements of a key: a view where they lie side by side in MXNet's memory, else a copy.

    Raises:
        IndexError: An index is out of range.
    """
    if isinstance(key, int | np.integer) and not -len(tensor) <= key < len(tensor):
        # a loop over an array ends by this
        raise IndexError(f"index {key} is out of range for an array of {len(tensor)}")
    plain, turned = _converted(tensor, key)
    chosen = tensor[plain]
    if turned:
        return chosen.flip(turned)
    return chosen if not _is_basic(plain) or _is_run(plain) else chosen.clone()


def assign(tensor: Tensor, key: Any, value: Any) -> None:
    """Change the elements of a key in place; the value is broadcast."""
    plain, turned = _converted(tensor, key)
    target = tensor[plain] if _is_basic(plain) else None
    if isinstance(value, np.ndarray | list | tuple | np.generic):
        value = torch.from_numpy(np.array(value))
    if isinstance(value, Tensor):
        value = value.to(tensor.device, tensor.dtype)
        value = value.flip(turned) if turned else value
        while target is not None and value.ndim > target.ndim and value.shape[0] == 1:
            value = value[0]
    if target is None:
        tensor[plain] = value
    elif isinstance(value, Tensor):
        target.copy_(value)
    else:
        target.fill_(value)


def _is_basic(key: Any) -> bool:
    parts = key if isinstance(key, tuple) else (key,)
    return all(isinstance(part, int | np.integer | slice) or part is None or part is ... for part in parts)


def _is_run(key: Any) -> bool:
    """Return whether a key selects contiguous elements.

    Such a key consists of integers, then at most one slice of step 1.
    """
    parts = [part for part in (key if isinstance(key, tuple) else (key,)) if part is not None]
    if parts and parts[-1] is ...:
        parts = parts[:-1]
    while parts and parts[-1] == slice(None):
        parts = parts[:-1]
    *first, last = parts or [0]
    whole = all(isinstance(part, int) for part in first)
    return whole and (isinstance(last, int) or (isinstance(last, slice) and last.step in {None, 1}))


def _converted(tensor: Tensor, key: Any) -> tuple[Any, list[int]]:
    """Return a key as torch takes it, and the axes of the result that run backwards."""
    parts = list(key) if isinstance(key, tuple) else [key]
    turned: list[int] = []
    indices: list[Any] = []
    axis = out_axis = 0
    for part in parts:
        if isinstance(part, slice) and part.step is not None and part.step < 0:
            count = tensor.shape[axis]
            numbers = range(count)[part]
            low, high = (numbers[-1], numbers[0] + 1) if numbers else (0, 0)
            # torch takes forward steps only
            indices.append(slice(low, high, -part.step))
            turned.append(out_axis)
        else:
            indices.append(_index(part, tensor))
        if part is ...:
            axis += tensor.ndim - (len(parts) - 1 - parts.count(None))
            out_axis = axis
            continue
        axis += part is not None
        out_axis += not isinstance(part, int | np.integer)
    return (tuple(indices) if isinstance(key, tuple) else indices[0]), turned


def _index(part: Any, tensor: Tensor) -> Any:
    """Return one part of a key; arrays of floating-point numbers hold indices in MXNet."""
    if isinstance(part, np.integer):
        return int(part)
    if isinstance(part, list | np.ndarray):
        part = torch.from_numpy(np.array(part))
    if isinstance(part, Tensor):
        return part.to(tensor.device, torch.bool if part.dtype is torch.bool else torch.long)
    return part


# Arithmetic and indexing are torch's with MXNet's rules for types and sizes: the result of a comparison has
# the type of its operands, an integer array stays one, and no array has zero axes. All other operators are
# those of the symbols' table.

_SLICE = slice  # the class has a method of that name


class NDArray:
    """An array on a device.

    Args:
        tensor: Its elements; shared, not copied.

    Attributes:
        tensor: Its elements, for use with torch.
        grad: Where its gradient is written to; None without ``attach_grad``.
    """

    __slots__ = ("__weakref__", "_hook", "grad", "grad_req", "tensor")
    __array_priority__ = 1000.0

    operator_function: ClassVar[Callable[[str], Callable[..., Any]]]
    """Returns the function of an operator; ``functions``, which needs this class, sets it."""

    kinds: ClassVar[dict[str, type[NDArray]]] = {}
    """The classes of arrays by MXNet's name of their kind."""

    def __init_subclass__(cls) -> None:
        NDArray.kinds[cls.stype] = cls

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor if tensor.ndim else tensor.reshape(1)
        self.grad: NDArray | None = None
        self.grad_req = "null"
        self._hook: Any = None

    # Facts.

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        """Number of its axes."""
        return int(self.tensor.ndim)

    @property
    def size(self) -> int:
        """Number of its elements."""
        return int(self.tensor.numel())

    @property
    def dtype(self) -> type[Any]:
        """Element type, as NumPy's class."""
        return numpy_type(self.tensor.dtype)

    @property
    def context(self) -> Context:
        """The device that it is on."""
        return context_of(self.tensor.device)

    ctx = context

    stype = "default"
    """Its kind: a subclass of ``sparse`` has another one."""

    @property
    def T(self) -> NDArray:  # noqa: N802 - NumPy's name
        """The array with its axes in reverse order."""
        return self._of(self.tensor.permute(*range(self.ndim - 1, -1, -1)))

    def __len__(self) -> int:
        return len(self.tensor)

    def __repr__(self) -> str:
        sizes = "x".join(map(str, self.shape))
        return f"\n{self.asnumpy()!s}\n<NDArray {sizes} @{self.context}>"

    def __bool__(self) -> bool:
        return bool(self._single())

    def __float__(self) -> float:
        return float(self._single())

    def __int__(self) -> int:
        return int(self._single())

    def __index__(self) -> int:
        return int(self._single())

    def _single(self) -> Any:
        if self.size != 1:
            raise UsageError(f"an array of shape {self.shape} is no single number; take an element of it")
        return self.tensor.item()

    # To NumPy and back.

    def asnumpy(self) -> np.ndarray:
        """Return a copy as an array of NumPy's."""
        return np.array(self.tensor.detach().cpu().numpy())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.asnumpy()
        return array if dtype is None else array.astype(dtype)

    def asscalar(self) -> Any:
        """Return its single element as a number of NumPy's.

        Raises:
            UsageError: It has more elements.
        """
        self._single()
        return self.asnumpy().reshape(-1)[0]

    item = asscalar

    def tolist(self) -> Any:
        """Return its elements as lists."""
        return self.tensor.tolist()

    def __reduce__(self) -> Any:
        return _from_numpy, (self.asnumpy(),)

    def __deepcopy__(self, memo: Any) -> NDArray:
        return self.copy()

    # Copies.

    def copy(self) -> NDArray:
        """Return a copy on the same device."""
        with scope():
            return self._of(self.tensor.clone())

    def copyto(self, other: NDArray | Context) -> NDArray:
        """Copy the elements to another array, or to a new one on a device; return that.

        Raises:
            UsageError: The other one has another shape.
        """
        if isinstance(other, Context):
            return self._of(self.tensor.detach().to(other.torch_device, copy=True))
        if other.shape != self.shape:
            raise UsageError(f"copyto: the shapes are {self.shape} and {other.shape}, expected the same")
        with torch.no_grad():
            other.tensor.copy_(self.tensor)
        return other

    def as_in_context(self, context: Context) -> NDArray:
        """Return the array on a device: itself if it is there."""
        if context.torch_device.type == self.tensor.device.type and self.context == _plain(context):
            return self
        with scope():
            return self._of(self.tensor.to(context.torch_device))

    as_in_ctx = as_in_context

    def astype(self, dtype: Any, copy: bool = True) -> NDArray:
        """Return the array with another element type."""
        with scope():
            return self._of(self.tensor.to(torch_type(dtype), copy=copy))

    def tostype(self, stype: str) -> NDArray:
        """Return the array as one of a kind.

        Raises:
            UsageError: There is no such kind.
        """
        if stype not in self.kinds:
            raise UsageError(
                f"an array cannot be stored as {stype!r}; expected one of {', '.join(self.kinds)}"
            )
        return self.kinds[stype](self.tensor)

    def detach(self) -> NDArray:
        """Return an array of the same memory that is not recorded."""
        return self._of(self.tensor.detach())

    def wait_to_read(self) -> None:
        """Wait until it is computed."""
        if self.tensor.is_cuda:
            torch.cuda.synchronize(self.tensor.device)

    wait_to_write = wait_to_read

    def _of(self, tensor: torch.Tensor) -> NDArray:
        return NDArray(tensor)

    # Gradients.

    def attach_grad(self, grad_req: str = "write", stype: str | None = None) -> None:
        """Make a place for its gradient; what it was computed from is forgotten."""
        self.tensor = self.tensor.detach()
        self.mark(NDArray(torch.zeros_like(self.tensor)), grad_req)

    def mark(self, gradient: NDArray | None, grad_req: str) -> None:
        """Say where its gradient is written, or added, to.

        Raises:
            UsageError: ``grad_req`` is none of write, add, null.
        """
        if grad_req not in GRAD_REQS:
            raise UsageError(f"grad_req is {grad_req!r}, expected one of {', '.join(GRAD_REQS)}")
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        self.grad, self.grad_req = gradient, grad_req
        self.tensor = self.tensor.detach()
        if grad_req == "null" or gradient is None:
            return
        self.tensor.requires_grad_()
        self._hook = self.tensor.register_post_accumulate_grad_hook(partial(_deliver, gradient, grad_req))

    def backward(
        self, out_grad: NDArray | None = None, retain_graph: bool = False, train_mode: bool = True
    ) -> None:
        """Write the gradients of the sum of its elements; see ``autograd.backward``."""
        given = None if out_grad is None else [out_grad.tensor]
        run_backward([self.tensor], given, retain_graph=retain_graph)

    def zero_grad(self) -> None:
        """Set its gradient to zero."""
        if self.grad is not None:
            self.grad[:] = 0

    # Indexing.

    def __getitem__(self, key: Any) -> NDArray:
        with scope():
            return self._of(select(self.tensor, _plain_key(key)))

    def __setitem__(self, key: Any, value: Any) -> None:
        with torch.no_grad():
            assign(self.tensor, _plain_key(key), value.tensor if isinstance(value, NDArray) else value)

    def __iter__(self) -> Iterator[NDArray]:
        return (self[number] for number in range(len(self)))

    def slice(self, begin: Any, end: Any, step: Any = None) -> NDArray:
        """Return a copy of a part: from ``begin`` to before ``end``, along each axis."""
        if isinstance(begin, int):
            return self[begin:end].copy()
        steps = step or (None,) * len(begin)
        return self[tuple(map(_SLICE, begin, end, steps))].copy()

    def reshape(self, *shape: Any, **kwargs: Any) -> NDArray:
        """Return the elements in other sizes; 0, -1, -2, -3 and -4 as ``Reshape`` has them."""
        sizes = kwargs.get("shape", shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)
        sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
        wanted = _target_shape(self.shape, sizes, reverse=bool(kwargs.get("reverse")))
        with scope():
            return self._of(self.tensor.reshape(wanted))

    def reshape_like(self, other: NDArray) -> NDArray:
        """Return the elements in the sizes of another array."""
        with scope():
            return self._of(self.tensor.reshape(other.shape))

    def transpose(self, *axes: Any, **kwargs: Any) -> NDArray:
        """Return the array with its axes in another order, reversed by default."""
        order = kwargs.get("axes", axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes)
        with scope():
            return self._of(self.tensor.permute(*(order or range(self.ndim - 1, -1, -1))).contiguous())

    def broadcast_to(self, shape: Sequence[int]) -> NDArray:
        """Return the array repeated along axes of size 1."""
        with scope():
            return self._of(self.tensor.expand(*shape).contiguous())

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or find_operator(name) is None:
            raise AttributeError(f"an NDArray has no attribute or operator {name!r}")
        return partial(NDArray.operator_function(name), self)

    # Arithmetic.

    def _with(self, function: Callable[..., torch.Tensor], other: Any, *, swapped: bool = False) -> NDArray:
        own, value = self.tensor, _operand(self.tensor, other)
        if value is None:
            return NotImplemented  # type: ignore[no-any-return]  # Python then asks the other operand
        with scope():
            try:
                result = function(value, own) if swapped else function(own, value)
            except RuntimeError as error:
                raise RunError(f"arrays of shapes {self.shape} and {np.shape(other)}: {error}") from error
        return self._of(result.to(own.dtype) if result.dtype is torch.bool else result)

    def _change(self, function: Callable[..., torch.Tensor], other: Any) -> NDArray:
        value = _operand(self.tensor, other)
        if value is None:
            return NotImplemented  # type: ignore[no-any-return]  # Python then asks the other operand
        if is_recording():
            raise UsageError(
                "+=, -=, *= and /= are not recorded by autograd, as in MXNet; write x = x + y inside record()"
            )
        with torch.no_grad():
            self.tensor.copy_(function(self.tensor, value))
        return self

    def __add__(self, other: Any) -> NDArray:
        return self._with(torch.add, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> NDArray:
        return self._with(torch.sub, other)

    def __rsub__(self, other: Any) -> NDArray:
        return self._with(_subtract, other, swapped=True)

    def __mul__(self, other: Any) -> NDArray:
        return self._with(torch.mul, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> NDArray:
        return self._with(_divide, other)

    def __rtruediv__(self, other: Any) -> NDArray:
        return self._with(_divide, other, swapped=True)

    __div__, __rdiv__ = __truediv__, __rtruediv__

    def __mod__(self, other: Any) -> NDArray:
        return self._with(torch.remainder, other)

    def __rmod__(self, other: Any) -> NDArray:
        return self._with(torch.remainder, other, swapped=True)

    def __pow__(self, other: Any) -> NDArray:
        return self._with(torch.pow, other)

    def __rpow__(self, other: Any) -> NDArray:
        return self._with(torch.pow, other, swapped=True)

    def __neg__(self) -> NDArray:
        return self._with(torch.mul, -1)

    def __abs__(self) -> NDArray:
        with scope():
            return self._of(self.tensor.abs())

    def __iadd__(self, other: Any) -> NDArray:
        return self._change(torch.add, other)

    def __isub__(self, other: Any) -> NDArray:
        return self._change(torch.sub, other)

    def __imul__(self, other: Any) -> NDArray:
        return self._change(torch.mul, other)

    def __itruediv__(self, other: Any) -> NDArray:
        return self._change(_divide, other)

    def __imod__(self, other: Any) -> NDArray:
        return self._change(torch.remainder, other)

    def __eq__(self, other: object) -> NDArray:  # type: ignore[override]  # MXNet compares element by element
        return self._with(torch.eq, other)

    def __ne__(self, other: object) -> NDArray:  # type: ignore[override]  # MXNet compares element by element
        return self._with(torch.ne, other)

    def __gt__(self, other: Any) -> NDArray:
        return self._with(torch.gt, other)

    def __ge__(self, other: Any) -> NDArray:
        return self._with(torch.ge, other)

    def __lt__(self, other: Any) -> NDArray:
        return self._with(torch.lt, other)

    def __le__(self, other: Any) -> NDArray:
        return self._with(torch.le, other)

    __hash__ = object.__hash__


NDArray.kinds["default"] = NDArray


def torch_type(dtype: Any) -> torch.dtype:
    """Return torch's element type for NumPy's or its name.

    Raises:
        UsageError: There is no such type.
    """
    if isinstance(dtype, torch.dtype):
        return dtype
    name = "bool" if dtype is bool else dtype if isinstance(dtype, str) else np.dtype(dtype).name
    known = getattr(torch, name, None)
    if not isinstance(known, torch.dtype):
        raise UsageError(f"there is no element type {dtype!r}; expected one such as 'float32'")
    return known


def numpy_type(dtype: torch.dtype) -> type[Any]:
    """Return NumPy's class of an element type."""
    name = str(dtype).removeprefix("torch.")
    return np.dtype(name).type if name != "bfloat16" else np.float32


def _target_shape(shape: tuple[int, ...], codes: Sequence[int], *, reverse: bool) -> list[int]:
    try:
        sizes = sizes_from_codes(codes, shape, reverse=reverse)
    except (ValueError, LookupError) as error:
        raise UsageError(f"reshape of {shape} to {tuple(codes)}: {error}") from error
    return [math.prod(shape[axis] for axis in one) if isinstance(one, tuple) else one for one in sizes]


def _from_numpy(array: np.ndarray) -> NDArray:
    return NDArray(torch.from_numpy(array))


def _plain(context: Context) -> Context:
    """Return the context that says where memory is: torch has one CPU."""
    return context if context.device_type == "gpu" else context_of(torch.device("cpu"))


def _plain_key(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(map(_plain_key, key))
    return key.tensor if isinstance(key, NDArray) else key


def _operand(own: torch.Tensor, other: Any) -> Any:
    """Return the other operand as torch takes it; None if it is of no such kind."""
    if isinstance(other, NDArray):
        return other.tensor
    if isinstance(other, bool | int | float | np.number):
        # a number takes on the array's type
        return float(other) if own.is_floating_point() else int(other)
    if isinstance(other, np.ndarray):
        return torch.from_numpy(np.ascontiguousarray(other)).to(own)
    return None


def _subtract(left: Any, right: torch.Tensor) -> torch.Tensor:
    return torch.rsub(right, left) if not isinstance(left, torch.Tensor) else torch.sub(left, right)


def _divide(left: Any, right: Any) -> torch.Tensor:
    """Divide; integers are cut towards zero, as in C."""
    either = left if isinstance(left, torch.Tensor) else right
    if not isinstance(left, torch.Tensor):
        left = torch.as_tensor(left, dtype=either.dtype, device=either.device)
    return torch.div(left, right, rounding_mode=None if either.is_floating_point() else "trunc")


def _deliver(gradient: NDArray, grad_req: str, tensor: torch.Tensor) -> None:
    """Move a gradient that torch has added up to where MXNet wants it."""
    assert tensor.grad is not None
    with torch.no_grad():
        if grad_req == "add":
            gradient.tensor.add_(tensor.grad)
        else:
            gradient.tensor.copy_(tensor.grad)
    tensor.grad = None
