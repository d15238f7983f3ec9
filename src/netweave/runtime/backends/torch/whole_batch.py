"""The whole batch, seen from a part of it: the one place where parts computed elsewhere come in.

A batch may be computed in parts, on several devices. What looks at all of it, that is batch statistics,
losses divided by a count of labels, and shares of right answers, asks the net's ``WholeBatch``. Each part's
objective is such that the *mean* over the parts is the objective of the whole batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class WholeBatch:
    """A batch that is computed in one part, by this process alone.

    One of several parts is a subclass with its own ``parts`` and ``total``.

    Attributes:
        parts: In how many parts the batch is computed, all at the same time.
        is_synchronised: Whether batch statistics are those of the whole batch, not of each part.
    """

    parts = 1
    is_synchronised = True

    @property
    def normalises_parts(self) -> bool:
        """True if each part is normalised by its own statistics."""
        return self.parts == 1 or not self.is_synchronised

    def total(self, value: Tensor) -> Tensor:
        """Return the sum of a tensor over all parts; every part must ask in the same order.

        Where the tensor needs a gradient, that of the sum is summed over all parts too.
        """
        return value

    def exchange(self, parts: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        """Send a part to each of several workers, and return what comes from each.

        Args:
            parts: One axis each, by worker; this one's own is among them.
            sizes: Elements that come from each worker.

        Raises:
            ValueError: There are other workers, and this batch knows none.
        """
        if len(parts) > 1:
            raise ValueError("the net is cut across workers, and runs on them alone; train it with --devices")
        return list(parts)

    def divisor(self, count: Tensor | float | None) -> Tensor | float:
        """Return what a part's sum is divided by so that the mean over the parts is right.

        Args:
            count: What the part has of the things that the whole batch's sum is divided by the number of;
                None where the sum is not divided.
        """
        if self.parts == 1:
            return 1 if count is None else _at_least_one(count)
        if count is None:
            return 1 / self.parts
        total = self.total(count if isinstance(count, Tensor) else torch.tensor(count))
        return total.clamp(min=1).double() / self.parts  # a count divided by integers would be float32

    def mean_and_variance(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return mean and biased variance of each channel (axis 1) over the whole batch, and the count.

        In two passes, as differences of squares lose digits.
        """
        axes = [axis for axis in range(x.ndim) if axis != 1]
        shape = [1, -1, *[1] * (x.ndim - 2)]
        wide = x.float() if x.itemsize < 4 else x
        count = self.total(torch.tensor(float(x.numel() // x.shape[1]), device=x.device, dtype=wide.dtype))
        mean = self.total(wide.sum(axes)) / count
        variance = self.total((wide - mean.reshape(shape)).square().sum(axes)) / count
        return mean, variance, count


def _at_least_one(count: Tensor | float) -> Tensor | float:
    return count.clamp(min=1) if isinstance(count, Tensor) else max(1, count)
