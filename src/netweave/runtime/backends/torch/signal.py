"""Signal processing in torch: Fourier transforms and windows; complex numbers are a last axis of two."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from netweave.runtime.backends.torch.operator_table import Number, lowering, torch_dtype


@lowering("DFT", since=20)
def discrete_fourier(
    x: Tensor,
    dft_length: Number | None = None,
    axis: Number | None = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    """Transform along an axis; a real input has a last axis of one."""
    along = (-2 if axis is None else int(axis)) % x.ndim
    signal = torch.view_as_complex(x.contiguous()) if x.shape[-1] == 2 else x.squeeze(-1)
    length = None if dft_length is None else int(dft_length)
    if inverse and onesided:
        return torch.fft.irfft(signal, length, along).unsqueeze(-1)
    y = (torch.fft.ifft if inverse else torch.fft.fft)(signal, length, along)
    if onesided:
        y = y.narrow(along, 0, y.shape[along] // 2 + 1)
    return torch.view_as_real(y)


@lowering("STFT", since=17)
def short_time_fourier(
    signal: Tensor,
    frame_step: Number,
    window: Tensor | None = None,
    frame_length: Number | None = None,
    *,
    onesided: int = 1,
) -> Tensor:
    """Transform overlapping frames, each times the window."""
    size = window.shape[0] if window is not None else int(frame_length or 0)
    frames = signal.unfold(1, size, int(frame_step)).transpose(-1, -2)
    if window is not None:
        frames = frames * window[:, None]
    return discrete_fourier(frames.contiguous(), axis=2, onesided=onesided)


def _lower_window(op_type: str, make: Callable[..., Tensor]) -> None:
    @lowering(op_type, since=17)
    def window(size: Number, *, output_datatype: int = 1, periodic: int = 1) -> Tensor:
        return make(int(size), periodic=bool(periodic), dtype=torch.float64).to(torch_dtype(output_datatype))

    window.__name__ = window.__qualname__ = op_type


_lower_window("HannWindow", torch.hann_window)

_lower_window("BlackmanWindow", torch.blackman_window)


@lowering("HammingWindow", since=17)
def hamming_window(size: Number, *, output_datatype: int = 1, periodic: int = 1) -> Tensor:
    """Return Hamming's window with ONNX's coefficients."""
    window = torch.hamming_window(
        int(size), periodic=bool(periodic), alpha=25 / 46, beta=21 / 46, dtype=torch.float64
    )
    return window.to(torch_dtype(output_datatype))
