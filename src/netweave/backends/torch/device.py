"""Devices of torch's by name."""

from __future__ import annotations

import torch

from netweave.errors import UsageError


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
