"""A batch of which each device of this process computes a part, on a thread of its own."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from netweave.runtime.backends.torch.whole_batch import WholeBatch

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Meeting:
    """Rendezvous of the threads of several devices to add up a tensor.

    A task of the engine must not wait for another task, as both may need one thread. These may: each device
    has a lane of its own, and does the same passes in the same order (decision 0152).

    Args:
        size: Number of devices.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._barrier = threading.Barrier(size)
        self._slots: list[Tensor | None] = [None] * size
        self._error: BaseException | None = None

    def total(self, number: int, value: Tensor) -> Tensor:
        """Return the sum of the tensors of all devices, added in the order of devices.

        Args:
            number: The caller's device.
            value: Its tensor.

        Raises:
            BaseException: What another device has failed with.
        """
        self._slots[number] = value
        self._wait()
        summed = torch.zeros_like(value)
        for slot in self._slots:
            assert slot is not None
            summed += slot.to(value.device)
        self._wait()  # nobody writes to the slots before all have read them
        return summed

    def guard(self, task: Callable[[], T]) -> T:
        """Do a part of a pass; if it fails, let the devices that wait for it fail too."""
        try:
            return task()
        except BaseException as error:
            self.fail(error)
            raise

    def fail(self, error: BaseException) -> None:
        """Let the devices that wait for another one fail, since that will not come."""
        if not isinstance(error, threading.BrokenBarrierError):
            self._error = self._error or error
        self._barrier.abort()

    def _wait(self) -> None:
        try:
            self._barrier.wait()
        except threading.BrokenBarrierError:
            if self._error is not None:
                raise self._error from None
            raise


class DeviceBatch(WholeBatch):
    """The whole batch, seen from one of the devices of this process.

    Each device's objective is its share of the whole one, so that gradients are *summed* over devices.

    Args:
        meeting: Of all devices.
        number: Of this one.
        is_synchronised: Whether batch statistics are those of the whole batch, not of each device's part.
    """

    def __init__(self, meeting: Meeting, number: int, *, is_synchronised: bool) -> None:
        self.parts = meeting.size
        self.is_synchronised = is_synchronised
        self._meeting, self._number = meeting, number

    def total(self, value: Tensor) -> Tensor:
        """Return the sum of a tensor over all devices; so is the gradient of it."""
        summed: Tensor = _Sum.apply(value, self)
        return summed

    def divisor(self, count: Tensor | float | None) -> Tensor | float:
        """Return what a part's sum is divided by so that the sum over the devices is right."""
        if count is None:
            return 1
        total = self.total(count if isinstance(count, Tensor) else torch.tensor(count))
        return total.clamp(min=1).double()  # a count divided by integers would be float32

    def sum_over_devices(self, value: Tensor) -> Tensor:
        """Return the sum of a tensor over all devices, without a gradient."""
        return self._meeting.total(self._number, value.detach())


class _Sum(torch.autograd.Function):  # type: ignore[misc]  # torch says no types
    """The sum forwards and backwards: what each device makes of it depends on every device's part."""

    @staticmethod
    def forward(context: Any, value: Tensor, batch: DeviceBatch) -> Tensor:
        context.batch = batch
        return batch.sum_over_devices(value)

    @staticmethod
    def backward(context: Any, *above: Tensor) -> tuple[Tensor, None]:
        return context.batch.sum_over_devices(above[0]), None
