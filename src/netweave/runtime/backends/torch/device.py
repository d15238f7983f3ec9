"""Devices of torch, their threads, and what is moved to them."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch import Tensor

from netweave.errors import UsageError


def check_bfloat16(device: torch.device) -> None:
    """Refuse a device without arithmetic for bfloat16: torch would convert, slower than float32.

    Raises:
        UsageError: It has none.
    """
    if device.type == "cuda":
        can, wanted = torch.cuda.is_bf16_supported(including_emulation=False), "a GPU of Ampere or later"
    elif platform.machine() in {"aarch64", "arm64"}:
        can, wanted = bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()), "an Arm processor with BF16"
    else:
        can = bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
        wanted = "a processor with AVX512-BF16 or AMX"
    if not can:
        raise UsageError(
            f"precision bf16 needs {wanted}, which {str(device)!r} here is not; use f32, the default"
        )


def check_float16() -> None:
    """Refuse a processor without arithmetic for float16.

    Raises:
        UsageError: It has none.
    """
    if not torch.ops.mkldnn._is_mkldnn_fp16_supported():
        raise UsageError(
            "precision f16 needs a processor with AVX512-FP16 or AMX-FP16, which this one is not; use f32, "
            "the default, or bf16"
        )


def find_device(name: str | torch.device) -> torch.device:
    """Return a device of torch's.

    Raises:
        UsageError: There is none of this name here.
    """
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        cuda = "" if torch.backends.cuda.is_built() else ", which was installed without CUDA,"
        raise UsageError(
            f"no device {str(device)!r}: torch{cuda} finds {torch.cuda.device_count()} GPUs here; "
            "leave out --gpu to compute on the CPU"
        )
    return device


# Every thread that calls a parallel kernel of torch's gets helpers of its own, which stay. As soon as there
# are more of them than processors, GNU's OpenMP lets all of them sleep between two kernels instead of
# waiting awake, and waking takes longer than many a kernel.

OMP_PAUSE_SOFT = 1
"""Kind of ``omp_pause_resource_all`` (OpenMP 5.0, section 3.2.44): settings stay."""


def release_threads() -> bool:
    """End the helpers of the calling thread, which gets new ones when it needs them; say whether that went.

    Costs some microseconds where there are none.
    """
    pause = _gnu_pause()
    return pause is not None and pause(OMP_PAUSE_SOFT) == 0


@cache
def _gnu_pause() -> Callable[[int], int] | None:
    """Return ``omp_pause_resource_all`` of GNU's OpenMP; in LLVM's it is about all threads together."""
    process = ctypes.CDLL(None)
    if not hasattr(process, "GOMP_parallel") or hasattr(process, "__kmpc_fork_call"):
        return None
    pause: Callable[[int], int] | None = getattr(process, "omp_pause_resource_all", None)
    return pause


def single_thread() -> bool:
    """Have the calling thread compute by itself, without helpers; say whether that went."""
    return compute_threads(1)


def compute_threads(count: int) -> bool:
    """Have the calling thread compute with so many threads, itself included; say whether that went."""
    torch.get_num_threads()  # a thread's first call takes over the process's number, so it comes first
    threads = getattr(ctypes.CDLL(None), "omp_set_num_threads", None)
    if threads is None:
        return False
    threads(count)
    return True


@contextmanager
def computing_with(count: int) -> Iterator[None]:
    """Have the calling thread compute with so many threads inside; other threads keep their number."""
    before = torch.get_num_threads()
    if count == before or not compute_threads(count):
        yield
        return
    try:
        yield
    finally:
        compute_threads(before)


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
        return bits.view(ml_dtypes.bfloat16)
    array: np.ndarray = tensor.numpy()
    return array
