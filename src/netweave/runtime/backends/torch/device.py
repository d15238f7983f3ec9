"""Devices of torch's by name."""

from __future__ import annotations

import platform

import torch

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
