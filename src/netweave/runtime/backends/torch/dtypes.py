"""Element types and arrays: ONNX's and numpy's in, torch's out, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir
import torch

from netweave.errors import RunError

if TYPE_CHECKING:
    from torch import Tensor

_DTYPES = {
    ir.DataType.FLOAT: torch.float32,
    ir.DataType.UINT8: torch.uint8,
    ir.DataType.INT8: torch.int8,
    ir.DataType.UINT16: torch.uint16,
    ir.DataType.INT16: torch.int16,
    ir.DataType.INT32: torch.int32,
    ir.DataType.INT64: torch.int64,
    ir.DataType.BOOL: torch.bool,
    ir.DataType.FLOAT16: torch.float16,
    ir.DataType.DOUBLE: torch.float64,
    ir.DataType.UINT32: torch.uint32,
    ir.DataType.UINT64: torch.uint64,
    ir.DataType.COMPLEX64: torch.complex64,
    ir.DataType.COMPLEX128: torch.complex128,
    ir.DataType.BFLOAT16: torch.bfloat16,
}


def torch_dtype(dtype: int) -> torch.dtype:
    """Return torch's element type for ONNX's number.

    Raises:
        RunError: torch has no such type.
    """
    found = _DTYPES.get(ir.DataType(dtype))
    if found is None:
        raise RunError(f"torch has no element type for ONNX's {ir.DataType(dtype).name}")
    return found


def to_tensor(array: np.ndarray) -> Tensor:
    """Return a torch tensor with a copy of an array's elements."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(np.array(array).view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.array(array, order="C"))


def to_numpy(tensor: Tensor) -> np.ndarray[Any, Any]:
    """Return a tensor's elements as an array."""
    tensor = tensor.detach().cpu().contiguous()
    if tensor.dtype is torch.bfloat16:
        bits: np.ndarray = tensor.view(torch.int16).numpy()
        return bits.view(ir.DataType.BFLOAT16.numpy())
    array: np.ndarray = tensor.numpy()
    return array
