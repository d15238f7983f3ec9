"""Which devices a run is on, as the command line and callers name them."""

from __future__ import annotations

import re

from netweave.errors import UsageError


def parse_devices(text: str) -> tuple[str, ...]:
    """Return torch's names of devices, one for each rank.

    Args:
        text: Devices with commas between: ``cpu:2`` for two processes on the CPU, ``cuda`` or ``cuda:1`` for
            a GPU, or a bare number for a GPU, as Caffe's ``-gpu 0,1``.

    Raises:
        UsageError: It names no device, or a GPU twice.

    >>> parse_devices("cpu:2")
    ('cpu', 'cpu')
    >>> parse_devices("0,1")
    ('cuda:0', 'cuda:1')
    """
    devices = [device for item in text.split(",") for device in _parse_item(item.strip(), text)]
    gpus = [device for device in devices if device != "cpu"]
    repeated = sorted({device for device in gpus if gpus.count(device) > 1})
    if repeated:
        raise UsageError(f"devices {text!r}: {', '.join(repeated)} is named twice; name each GPU once")
    return tuple(devices)


def _parse_item(item: str, text: str) -> list[str]:
    match = re.fullmatch(r"(?:(cpu|cuda)(?::(\d+))?|(\d+))", item)
    if match is None or (match[2] == "0" and match[1] == "cpu"):
        raise UsageError(
            f"devices {text!r}: {item!r} is no device; expected cpu:2 for two processes on the CPU, or "
            "numbers of GPUs such as 0,1"
        )
    kind, number, gpu = match.groups()
    if kind == "cpu":
        return ["cpu"] * int(number or 1)
    return [f"cuda:{int(gpu or number or 0)}"]
