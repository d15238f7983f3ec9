"""Both ends of an update on servers: the slices of a Job that a server holds, and the updater of a worker."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from netweave.training.cluster.server import Push
from netweave.training.optim import Update, Updater
from netweave.training.parallel.exchange import FlatRow, GradientRow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from netweave.training.cluster.server import Answer, Service


class JobSlices:
    """Slices that change by the rule of a Job: what a server holds.

    Args:
        updater: Of parameters that are the server's own.
    """

    def __init__(self, updater: Updater) -> None:
        self._updater = updater
        parameters = updater.parameters
        self._parameters = {key: tensor.detach() for key, tensor in parameters.items()}
        self._values = FlatRow(updater.layout, parameters)
        self._gradients = GradientRow(updater.layout, parameters)
        for key, tensor in parameters.items():
            tensor.grad = self._gradients.views[key]
        self._kept = [{key: kept[name] for key, kept in updater.state.items()} for name in updater.rule.names]

    def values(self, number: int) -> Tensor:
        """Return a copy of a slice's elements in a row."""
        return self._row(number, self._parameters)

    def set_values(self, number: int, values: Tensor) -> None:
        """Replace them."""
        self._set(number, self._parameters, values)

    def rows(self, number: int) -> Tensor:
        """Return a copy of the elements, and of the rule's state below."""
        return torch.stack([self._row(number, arrays) for arrays in (self._parameters, *self._kept)])

    def set_rows(self, number: int, rows: Tensor) -> None:
        """Replace them."""
        for arrays, row in zip((self._parameters, *self._kept), rows, strict=True):
            self._set(number, arrays, row)

    def apply(self, push: Push, version: int) -> None:
        """Change a slice by a gradient."""
        self._gradients.slice(push.number).copy_(push.gradient)
        step = self._updater.rule.updates_before + version + 1
        self._updater.apply(Update(step, push.rate, push.scale, push.factors), push.number)

    def _row(self, number: int, arrays: dict[str, Tensor]) -> Tensor:
        self._values.load(number, arrays)
        return self._values.slice(number).clone()

    def _set(self, number: int, arrays: dict[str, Tensor], row: Tensor) -> None:
        self._values.slice(number).copy_(row)
        self._values.store(number, arrays)


class ServedUpdater(Updater):
    """The updater of the first worker of a group: servers hold the parameters and the rule's state.

    What rates and factors an update has is found out here, from the gradients of the group; a slice is
    changed by the server that holds it, and its new values are taken over.

    Args:
        arguments: Of ``Updater``.
        holders: The server of each slice, by number.
        options: Of ``Updater``, with the layout of the cluster.
    """

    computes = False

    def __init__(self, *arguments: Any, holders: Sequence[int], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._holders = holders
        self._tensors = self.parameters
        self._row = FlatRow(self.layout, self._tensors)
        self._versions = [0] * len(self.layout.slices)
        self._servers: Sequence[Service] = ()
        self._group, self._sync_every = 0, 0

    def connect(
        self, servers: Sequence[Service], group: int, *, num_groups: int = 1, sync_every: int = 0
    ) -> None:
        """Say who holds the slices.

        Args:
            servers: The servers by number.
            group: This worker group.
            num_groups: How many groups push to them.
            sync_every: Updates after which this group has its servers synchronised with others; 0 for never.
        """
        self._servers = [servers[holder] for holder in self._holders]
        self._group, self._sync_every = group, sync_every
        self._versions = [self.iteration * num_groups] * len(self._servers)

    def together(self, stages: Sequence[int]) -> list[list[int]]:
        """Return the slices that are updated by one task: those of a server that are ready together."""
        bundles: dict[tuple[int, int], list[int]] = {}
        for number, stage in enumerate(stages):
            bundles.setdefault((stage, self._holders[number]), []).append(number)
        return list(bundles.values())

    def put(self) -> None:
        """Give the servers what is here: first values, or those of a checkpoint."""
        self._put(range(len(self._servers)))

    def _put(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            rows = []
            kept = [{key: own[name] for key, own in self.state.items()} for name in self.rule.names]
            for arrays in (self._tensors, *kept):
                self._row.load(number, arrays)
                rows.append(self._row.slice(number).clone())
            self._servers[number].put(
                number, torch.stack(rows), sequence=self.iteration, version=self._versions[number]
            )

    def resume(self) -> int:
        """Take over what the servers hold, for a group that was started again while they went on.

        Returns:
            Updates that the servers have had from this group, of all slices.
        """
        last: dict[int, int] = {}
        for server in dict.fromkeys(self._servers):
            last |= server.resume(self._group)
        self._put([number for number in range(len(self._servers)) if number not in last])
        self.fetch()
        return min(last.get(number, self.iteration) for number in range(len(self._servers)))

    def fetch(self) -> None:
        """Take over what the servers hold, with the rule's state; before a checkpoint."""
        kept = [{key: own[name] for key, own in self.state.items()} for name in self.rule.names]
        for number, server in enumerate(self._servers):
            answer = server.pull(number, whole=True)
            for arrays, row in zip((self._tensors, *kept), answer.values, strict=True):
                self._row.slice(number).copy_(row)
                self._row.store(number, arrays)
            self._versions[number] = answer.version

    def apply(self, update: Update, *numbers: int) -> None:
        """Push the gradients of slices that one server holds, and take over their new values."""
        answers = self._servers[numbers[0]].push(*(self._push(update, number) for number in numbers))
        for number, answer in zip(numbers, answers, strict=True):
            self._take(number, answer)

    def _push(self, update: Update, number: int) -> Push:
        keys = [span.key for span in self.layout.slices[number]]
        with torch.no_grad():
            self._row.load(number, {key: update.gradient(self.trained_by(key)) for key in keys})
        return Push(
            self._group,
            number,
            update.step - self.rule.updates_before,
            self._versions[number],
            self._row.slice(number),
            update.rate,
            update.scale,
            {key: update.factors[key] for key in keys if key in update.factors},
        )

    def between(self) -> Callable[[], None] | None:
        """Return what is to be done between the update that has begun and the next; None mostly."""
        if not self._sync_every or self.iteration % self._sync_every:
            return None
        return partial(self._synchronise, range(len(self._servers)))

    def _synchronise(self, numbers: Sequence[int]) -> None:
        """Have slices synchronised, in one order in all groups: some rules wait for all of them."""
        for number in numbers:
            self._take(number, self._servers[number].synchronise(number))

    def _take(self, number: int, answer: Answer) -> None:
        self._row.slice(number).copy_(answer.values)
        self._row.store(number, self._tensors)
        self._versions[number] = answer.version
