"""``mx.nd.sparse``: arrays with MXNet's sparse kinds, which hold all their elements here.

Operators and updates run over the whole array: the numbers are MXNet's (of its updates that are not lazy),
memory is that of a dense array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import torch

from netweave.errors import UsageError
from netweave.mxnet.context import Context, current_context
from netweave.mxnet.ndarray.array import NDArray, torch_type
from netweave.mxnet.ndarray.functions import operator_function
from netweave.mxnet.operators import find_operator


class CSRNDArray(NDArray):
    """A matrix of the kind ``csr``: elements that are not zero, row by row."""

    stype = "csr"

    @property
    def data(self) -> NDArray:
        """The elements that are not zero."""
        return NDArray(self.tensor[self.tensor != 0])

    @property
    def indices(self) -> NDArray:
        """Their columns."""
        return NDArray(self.tensor.nonzero()[:, 1])

    @property
    def indptr(self) -> NDArray:
        """Offset of each row among them, and their number."""
        counts = (self.tensor != 0).sum(1).cumsum(0)
        return NDArray(torch.cat([counts.new_zeros(1), counts]))


class RowSparseNDArray(NDArray):
    """An array of the kind ``row_sparse``: rows that are not zero."""

    stype = "row_sparse"

    @property
    def data(self) -> NDArray:
        """The rows that are not zero."""
        return NDArray(self.tensor[self.indices.tensor])

    @property
    def indices(self) -> NDArray:
        """Their numbers."""
        return NDArray((self.tensor.flatten(1) != 0).any(1).nonzero()[:, 0])

    def retain(self, indices: Any) -> RowSparseNDArray:
        """Return the array with zeros in all rows but some."""
        return retain(self, indices)


K = TypeVar("K", bound=NDArray)


def csr_matrix(
    arg1: Any, shape: Sequence[int] | None = None, ctx: Any = None, dtype: Any = None
) -> CSRNDArray:
    """Return a matrix of the kind ``csr``.

    Args:
        arg1: (data, indices, indptr); (data, (rows, columns)); sizes; or an array, SciPy's too.
        shape: Its sizes; as small as possible by default.
        ctx: Its device.
        dtype: Its element type; that of the data by default.

    Raises:
        UsageError: ``arg1`` is none of these, or an index is outside of ``shape``.
    """
    values, places = _entries(arg1)
    if places is None:
        return _made(CSRNDArray, values, ctx, dtype)
    rows, columns = places
    sizes = tuple(shape) if shape is not None else (int(rows.max()) + 1, int(columns.max()) + 1)
    matrix = np.zeros(sizes, values.dtype)
    try:
        np.add.at(matrix, (rows, columns), values)
    except IndexError as error:
        raise UsageError(f"csr_matrix of shape {sizes}: {error}") from error
    return _made(CSRNDArray, matrix, ctx, dtype)


def _entries(arg1: Any) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray] | None]:
    """Return elements with their rows and columns, or the whole matrix."""
    if hasattr(arg1, "toarray"):
        return np.asarray(arg1.toarray()), None
    if not isinstance(arg1, tuple):
        return _plain(arg1), None
    if all(isinstance(one, int | np.integer) for one in arg1):
        return np.zeros(arg1, np.float32), None
    if len(arg1) == 3:
        values, columns, starts = (_plain(one) for one in arg1)
        rows = np.repeat(
            np.arange(len(starts) - 1), starts[1:].astype(np.int64) - starts[:-1].astype(np.int64)
        )
    elif len(arg1) == 2 and len(arg1[1]) == 2:
        values, rows, columns = _plain(arg1[0]), *map(_plain, arg1[1])
    else:
        raise UsageError("csr_matrix takes (data, indices, indptr), (data, (rows, columns)), or an array")
    if not len(values) == len(rows) == len(columns):
        raise UsageError(f"csr_matrix: {len(values)} elements have {len(rows)} rows, {len(columns)} columns")
    return values, (rows.astype(np.int64), columns.astype(np.int64))


def row_sparse_array(
    arg1: Any, shape: Sequence[int] | None = None, ctx: Any = None, dtype: Any = None
) -> RowSparseNDArray:
    """Return an array of the kind ``row_sparse``.

    Args:
        arg1: (data, numbers of its rows); sizes; or an array.
        shape: Its sizes; as small as possible by default.
        ctx: Its device.
        dtype: Its element type; that of the data by default.

    Raises:
        UsageError: A row is outside of ``shape``.
    """
    if not isinstance(arg1, tuple) or all(isinstance(one, int | np.integer) for one in arg1):
        dense = np.zeros(arg1, np.float32) if isinstance(arg1, tuple) else _plain(arg1)
        return _made(RowSparseNDArray, dense, ctx, dtype)
    values, rows = _plain(arg1[0]), _plain(arg1[1]).astype(np.int64)
    sizes = tuple(shape) if shape is not None else (int(rows.max()) + 1, *values.shape[1:])
    dense = np.zeros(sizes, values.dtype)
    try:
        dense[rows] = values
    except (IndexError, ValueError) as error:
        raise UsageError(f"row_sparse_array of shape {sizes}: {error}") from error
    return _made(RowSparseNDArray, dense, ctx, dtype)


def zeros(stype: str, shape: Any, ctx: Any = None, dtype: Any = None, **kwargs: Any) -> Any:
    """Return zeros of a kind."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    return _made(NDArray, np.zeros(sizes, np.float32), ctx, dtype).tostype(stype)


empty = zeros


def array(source_array: Any, ctx: Any = None, dtype: Any = None) -> Any:
    """Return a copy of a sparse array, or of SciPy's matrix."""
    klass = type(source_array) if isinstance(source_array, NDArray) else CSRNDArray
    return _made(klass, _entries(source_array)[0], ctx, dtype)


def retain(data: Any, indices: Any) -> RowSparseNDArray:
    """Return an array with zeros in all rows but some."""
    rows = indices.tensor.long()
    kept = torch.zeros_like(data.tensor)
    kept[rows] = data.tensor[rows]
    return RowSparseNDArray(kept)


def _plain(value: Any) -> np.ndarray:
    if isinstance(value, NDArray):
        return value.asnumpy()
    # as in MXNet, Python's numbers are float32
    return value if isinstance(value, np.ndarray) else np.asarray(value, np.float32)


def _made(klass: type[K], values: np.ndarray, ctx: Any, dtype: Any) -> K:
    tensor = torch.from_numpy(np.ascontiguousarray(values))
    place = Context(ctx or current_context()).torch_device
    return klass(tensor.to(place, None if dtype is None else torch_type(dtype)))


def __getattr__(name: str) -> Any:
    """Return an operator, which takes arrays of all kinds."""
    if name.startswith("__") or find_operator(name) is None:
        from netweave.mxnet.base import missing

        raise missing("mx.nd.sparse", name, ["csr_matrix", "row_sparse_array", "zeros", "array", "retain"])
    return operator_function(name)
