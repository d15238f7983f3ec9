"""Devices of a run, as the command line and callers name them."""

from __future__ import annotations

import contextlib
import re
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True)
class Context:
    """A device of this process, as ``mx.Context``.

    Several contexts on the CPU compute side by side, each with its own threads.

    Attributes:
        kind: ``cpu`` or ``cuda``.
        index: Its number.
    """

    kind: str
    index: int = 0

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}"

    @property
    def torch_name(self) -> str:
        """Torch's name of it; torch has one CPU."""
        return "cpu" if self.kind == "cpu" else str(self)


def cpu(index: int = 0) -> Context:
    """Return a context on the CPU; contexts with different numbers compute side by side."""
    return Context("cpu", index)


def gpu(index: int = 0) -> Context:
    """Return the context of a GPU."""
    return Context("cuda", index)


def as_context(device: Context | str) -> Context:
    """Return the context of a name: ``cpu``, ``cpu:1``, ``cuda:0`` or ``gpu:0``.

    Raises:
        UsageError: It names none.

    >>> as_context("gpu:1")
    Context(kind='cuda', index=1)
    """
    if isinstance(device, Context):
        return device
    match = re.fullmatch(r"(cpu|cuda|gpu)(?::(\d+))?", str(device))
    if match is None:
        raise UsageError(f"{device!r} is no device; expected cpu:0, cpu:1, ... or cuda:0, cuda:1, ...")
    return Context("cuda" if match[1] == "gpu" else match[1], int(match[2] or 0))


def as_contexts(context: Context | str | Sequence[Context | str]) -> tuple[Context, ...]:
    """Return contexts, each once.

    Raises:
        UsageError: There is none, one is named twice, or a name is of no device.
    """
    given = [context] if isinstance(context, Context | str) else list(context)
    contexts = tuple(as_context(one) for one in given)
    if not contexts:
        raise UsageError("the list of contexts is empty; give one, such as cpu()")
    for one in contexts:
        if contexts.count(one) > 1:
            raise UsageError(f"context {one} is named twice; number them, such as [cpu(0), cpu(1)]")
    return contexts


_current: ContextVar[Context | None] = ContextVar("netweave device", default=None)


@contextlib.contextmanager
def device(context: Context | str) -> Iterator[Context]:
    """Let what a net with several devices is asked to compute in a ``with`` block be computed on one of them.

    The equivalent of ``owl.set_device`` of Minerva, and of ``with mx.gpu(1):``.

    Args:
        context: The device.

    Raises:
        UsageError: It is no device.
    """
    chosen = as_context(context)
    token = _current.set(chosen)
    try:
        yield chosen
    finally:
        _current.reset(token)


def current_context() -> Context | None:
    """Return the device that the innermost ``device`` block is for; None outside of all."""
    return _current.get()


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
