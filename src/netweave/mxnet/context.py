"""``mx.context``: devices, and the one that arrays are made on where nobody says."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, ClassVar

import torch

from netweave.errors import UsageError
from netweave.training.parallel.devices import Context as Device

if TYPE_CHECKING:
    from types import TracebackType


class Context:
    """A device, as MXNet names it; ``with mx.gpu(1):`` makes it the default.

    >>> Context("cpu", 1), Context(gpu(2)).device_type
    (cpu(1), 'gpu')

    Args:
        device_type: ``cpu``, ``gpu``, ``cpu_pinned``, ``cpu_shared``, or another context.
        device_id: Its number.

    Raises:
        UsageError: There is no such kind of device.
    """

    devtype2str: ClassVar[dict[int, str]] = {1: "cpu", 2: "gpu", 3: "cpu_pinned", 5: "cpu_shared"}
    devstr2type: ClassVar[dict[str, int]] = {name: number for number, name in devtype2str.items()}

    def __init__(self, device_type: str | Context, device_id: int = 0) -> None:
        other = device_type if isinstance(device_type, Context) else None
        kind = other.device_type if other else str(device_type)
        if kind not in self.devstr2type:
            known = ", ".join(self.devstr2type)
            raise UsageError(f"there is no device {kind!r}; expected one of {known}")
        self.device_type: str = kind
        self.device_id: int = other.device_id if other else int(device_id)
        self._tokens: list[Token[Context | None]] = []

    @property
    def device_typeid(self) -> int:
        """MXNet's number of the kind of device."""
        return self.devstr2type[self.device_type]

    @property
    def device(self) -> Device:
        """The device as the rest of Netweave names it."""
        return Device("cuda" if self.device_type == "gpu" else "cpu", self.device_id)

    @property
    def torch_device(self) -> torch.device:
        """The device as torch names it.

        Raises:
            UsageError: It is a GPU that torch does not see.
        """
        count = torch.cuda.device_count()
        if self.device_type == "gpu" and self.device_id >= count:
            raise UsageError(f"{self}: torch sees {count} CUDA devices; use mx.cpu(), or another number")
        return torch.device(self.device.torch_name)

    def empty_cache(self) -> None:
        """Give memory that is not used back to the device."""
        if self.device_type == "gpu":
            torch.cuda.empty_cache()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Context):
            return NotImplemented
        return (self.device_type, self.device_id) == (other.device_type, other.device_id)

    def __hash__(self) -> int:
        return hash((self.device_type, self.device_id))

    def __repr__(self) -> str:
        return f"{self.device_type}({self.device_id})"

    def __enter__(self) -> Context:
        self._tokens.append(_default.set(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _default.reset(self._tokens.pop())


_default: ContextVar[Context | None] = ContextVar("netweave.mxnet context", default=None)


def cpu(device_id: int = 0) -> Context:
    """Return a context on the CPU."""
    return Context("cpu", device_id)


def cpu_pinned(device_id: int = 0) -> Context:
    """Return a context on the CPU whose memory is pinned; the same as ``cpu`` here."""
    return Context("cpu_pinned", device_id)


def gpu(device_id: int = 0) -> Context:
    """Return the context of a GPU."""
    return Context("gpu", device_id)


def num_gpus() -> int:
    """Return how many GPUs torch sees."""
    return int(torch.cuda.device_count())


def gpu_memory_info(device_id: int = 0) -> tuple[int, int]:
    """Return the free and the whole memory of a GPU in bytes."""
    free, total = torch.cuda.mem_get_info(gpu(device_id).torch_device)
    return int(free), int(total)


def current_context() -> Context:
    """Return the context of the innermost ``with``; ``cpu(0)`` outside of all."""
    return _default.get() or cpu()


def context_of(device: torch.device) -> Context:
    """Return the context of a device of torch's."""
    return gpu(device.index or 0) if device.type == "cuda" else cpu()


def as_contexts(ctx: Context | str | Sequence[Context] | None) -> list[Context]:
    """Return the contexts that an argument ``ctx`` names; the current one for None.

    Raises:
        UsageError: The list is empty.
    """
    if ctx is None:
        return [current_context()]
    if isinstance(ctx, Context | str):
        return [Context(ctx)]
    contexts = [Context(one) for one in ctx]
    if not contexts:
        raise UsageError("the list of contexts is empty; give one, such as mx.cpu()")
    return contexts
