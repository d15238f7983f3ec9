"""Making arrays: ``mx.nd.array``, ``zeros``, ``arange``, ..., and ``save`` and ``load``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from netweave.errors import UsageError
from netweave.files.output_files import write_file
from netweave.formats.mxnet.ndarray import encode_arrays, read_arrays
from netweave.mxnet.context import Context, current_context
from netweave.mxnet.ndarray.array import NDArray, torch_type

Shape = int | Sequence[int]


def _placed(tensor: torch.Tensor, ctx: Context | None) -> NDArray:
    return NDArray(tensor.to(Context(ctx or current_context()).torch_device))


def _sizes(shape: Shape) -> tuple[int, ...]:
    return (int(shape),) if isinstance(shape, int | np.integer) else tuple(int(size) for size in shape)


def array(source_array: Any, ctx: Context | None = None, dtype: Any = None) -> NDArray:
    """Return a copy of numbers as an array: float32 unless an array of MXNet's or ``dtype`` says otherwise.

    Raises:
        UsageError: They are no numbers.
    """
    if isinstance(source_array, NDArray):
        kind = source_array.tensor.dtype if dtype is None else torch_type(dtype)
        return _placed(source_array.tensor.detach().to(kind, copy=True), ctx)
    try:
        values = np.array(source_array, dtype=None if dtype is None else np.dtype(dtype))
        tensor = torch.from_numpy(np.ascontiguousarray(values, np.float32 if dtype is None else values.dtype))
    except (TypeError, ValueError) as error:
        raise UsageError(f"array: expected numbers, found {type(source_array).__name__} ({error})") from error
    return _placed(tensor.clone(), ctx)


def empty(shape: Shape, ctx: Context | None = None, dtype: Any = "float32") -> NDArray:
    """Return an array whose elements nobody has set; here they are zeros."""
    return zeros(shape, ctx, dtype)


def zeros(
    shape: Shape, ctx: Context | None = None, dtype: Any = "float32", stype: str | None = None, **kwargs: Any
) -> NDArray:
    """Return an array of zeros."""
    return _placed(torch.zeros(_sizes(shape), dtype=torch_type(dtype or "float32")), ctx)


def ones(shape: Shape, ctx: Context | None = None, dtype: Any = "float32", **kwargs: Any) -> NDArray:
    """Return an array of ones."""
    return _placed(torch.ones(_sizes(shape), dtype=torch_type(dtype or "float32")), ctx)


def full(
    shape: Shape, val: float, ctx: Context | None = None, dtype: Any = "float32", out: Any = None
) -> NDArray:
    """Return an array of one number."""
    made = _placed(torch.full(_sizes(shape), val, dtype=torch_type(dtype)), ctx)
    return made if out is None else made.copyto(out)


def zeros_like(data: NDArray, **kwargs: Any) -> NDArray:
    """Return zeros in the sizes and of the type of an array."""
    return NDArray(torch.zeros_like(data.tensor.detach()))


def ones_like(data: NDArray, **kwargs: Any) -> NDArray:
    """Return ones in the sizes and of the type of an array."""
    return NDArray(torch.ones_like(data.tensor.detach()))


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: bool | None = None,
    ctx: Context | None = None,
    dtype: Any = "float32",
) -> NDArray:
    """Return numbers from ``start`` to before ``stop``; without ``stop`` from 0 to before ``start``."""
    first, last = (0.0, start) if stop is None else (start, stop)
    values = np.repeat(np.arange(first, last, step), repeat)
    return array(values, ctx, dtype)


def linspace(
    start: float,
    stop: float,
    num: int,
    endpoint: bool = True,
    ctx: Context | None = None,
    dtype: Any = "float32",
) -> NDArray:
    """Return numbers at equal distances."""
    return array(np.linspace(start, stop, num, endpoint=endpoint), ctx, dtype)


def eye(N: int, M: int = 0, k: int = 0, ctx: Context | None = None, dtype: Any = "float32") -> NDArray:
    """Return a matrix with ones on a diagonal."""
    return array(np.eye(N, M or N, k), ctx, dtype)


def from_numpy(ndarray: np.ndarray, zero_copy: bool = True) -> NDArray:
    """Return an array that shares the memory of one of NumPy's."""
    tensor = torch.from_numpy(ndarray)
    return NDArray(tensor if zero_copy else tensor.clone())


def save(fname: str, data: NDArray | Sequence[NDArray] | Mapping[str, NDArray]) -> None:
    """Write arrays to a ``.params`` file, which MXNet reads.

    Raises:
        UsageError: An array has a type that MXNet does not have.
        WriteError: The file cannot be written; the old one is untouched.
    """
    if isinstance(data, NDArray):
        data = [data]
    if isinstance(data, Mapping):
        content = encode_arrays({name: one.asnumpy() for name, one in data.items()})
    else:
        numbered = {str(number): one.asnumpy() for number, one in enumerate(data)}
        content = encode_arrays(numbered, named=False)
    write_file(fname, content)


def load(fname: str) -> Any:
    """Read the arrays of a ``.params`` file: a dictionary by name, or a list where they have no names.

    Raises:
        ReadError: The file cannot be read, or is none.
    """
    arrays = {name: array(values, dtype=values.dtype) for name, values in read_arrays(Path(fname)).items()}
    names = list(arrays)
    is_list = names == [str(number) for number in range(len(names))]
    return list(arrays.values()) if is_list else arrays
