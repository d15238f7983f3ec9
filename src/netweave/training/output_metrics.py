"""Metrics from a net's outputs: their elements, and means over batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    import torch

    from netweave.training.metrics import PhaseMetric


def averaged(
    batches: Iterable[Mapping[str, torch.Tensor]],
    means: Callable[[Mapping[str, torch.Tensor], int], Mapping[str, torch.Tensor]] | None = None,
) -> dict[str, tuple[float, ...]]:
    """Return the elements of each output, as means over all batches (``Solver::Test``).

    Args:
        batches: Outputs of each batch by name.
        means: Returns the means from sums and their number, where other ranks have batches too.
    """
    sums: dict[str, torch.Tensor] = {}
    count = 0
    for count, outputs in enumerate(batches, 1):  # noqa: B007 - needed behind the loop
        for key, value in outputs.items():
            sums[key] = sums[key] + value if key in sums else value
    if means is not None:
        return {key: elements(value) for key, value in means(sums, count).items()}
    return {key: elements(value / count) for key, value in sums.items()}


def measured(
    outputs: Mapping[str, torch.Tensor], batch: Mapping[str, torch.Tensor], metric: PhaseMetric | None
) -> dict[str, torch.Tensor]:
    """Show a batch to a metric; return the outputs of which means are taken."""
    if metric is None:
        return dict(outputs)
    values = {name: batch[name] for name in metric.inputs}
    values |= {name: outputs[name] for name in metric.outputs}
    metric.add({name: tensor.detach().float().cpu().numpy() for name, tensor in values.items()})
    return {name: tensor for name, tensor in outputs.items() if name not in metric.outputs}


class MeanOutputs:
    """Means of the outputs of several batches, which are taken from the device only when somebody asks."""

    def __init__(self) -> None:
        self._sums: dict[str, torch.Tensor] = {}
        self._count = 0

    def add(self, outputs: Mapping[str, torch.Tensor]) -> None:
        """Take the outputs of a batch in."""
        for name, value in outputs.items():
            self._sums[name] = self._sums[name] + value if name in self._sums else value
        self._count += 1

    def state(self) -> tuple[int, dict[str, torch.Tensor]]:
        """Return the number of batches taken in since the last ``take``, and the sums of their outputs."""
        return self._count, dict(self._sums)

    def restore(self, count: int, sums: Mapping[str, torch.Tensor]) -> None:
        """Go on where ``state`` was called."""
        self._count, self._sums = count, dict(sums)

    def take(self) -> dict[str, torch.Tensor]:
        """Return the means, and begin anew."""
        means = {name: total / self._count for name, total in self._sums.items()}
        self._sums, self._count = {}, 0
        return means


def elements(tensor: torch.Tensor) -> tuple[float, ...]:
    """Return the elements of an output."""
    return tuple(tensor.reshape(-1).tolist())


class OutputElements(Mapping[str, tuple[float, ...]]):
    """The elements of outputs by name; read from the device only when somebody asks.

    Args:
        outputs: The outputs.
    """

    def __init__(self, outputs: Mapping[str, torch.Tensor]) -> None:
        self._outputs = outputs

    def __getitem__(self, name: str) -> tuple[float, ...]:
        return elements(self._outputs[name])

    def array(self, name: str) -> np.ndarray:
        """Return an output with its axes."""
        values: np.ndarray = self._outputs[name].detach().cpu().numpy()
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self._outputs)

    def __len__(self) -> int:
        return len(self._outputs)
