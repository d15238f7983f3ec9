"""Gradients of a module's shards on their way to the sums over all ranks, while backward goes on."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch

from netweave.errors import UnsupportedError
from netweave.runtime.engine import Variable
from netweave.training.optim.rule import flat_layout
from netweave.training.parallel.plan import ExchangeSettings, SliceInfo
from netweave.training.parallel.shards import ShardExchange

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from netweave.runtime.engine import Engine
    from netweave.training.data.order import Shards
    from netweave.training.parallel.world import World


class ShardGradients:
    """Gives the gradients of each shard to the exchange, those of the last one as soon as they are there.

    A hook of torch's tells when backward has left a gradient. Whether it stays so depends on the user's loop,
    which may call backward again, or change gradients before the shard ends. So the first update watches, and
    sends at its end; each later one sends early if in the one before every gradient stayed as it came. A rank
    decides so by itself: the order in which slices are sent does not depend on it.

    Args:
        shards: Those that this rank computes.
        parameters: The parameters by key.
        world: The ranks.
        engine: Where tasks run.
        overlaps: Whether any are sent before their shard ends.

    Attributes:
        num_sent_early: Slices of the last update that were sent before its last shard had ended.
    """

    def __init__(
        self,
        shards: Shards,
        parameters: Mapping[str, Tensor],
        world: World,
        *,
        engine: Engine,
        overlaps: bool,
    ) -> None:
        self._shards, self._parameters = shards, parameters
        sizes = {key: tensor.numel() for key, tensor in parameters.items()}
        self._layout = flat_layout(sizes)
        numbers = {key: number for number, key in enumerate(sizes)}
        slices = [
            SliceInfo(sum(span.stop - span.start for span in spans), numbers[spans[0].key], 0)
            for spans in self._layout.slices
        ]
        self._exchange = ShardExchange(
            shards, world, ExchangeSettings(), self._layout, parameters, slices, engine=engine
        )
        self._variables = [Variable(f"gradient {number}") for number in range(len(slices))]
        self._shard: int | None = None
        self._update = self._num_pushed = self.num_sent_early = 0
        self._added: set[str] = set()
        self._came: dict[str, tuple[Tensor, int]] = {}
        self._is_steady, self._sends_early = True, False
        self._hooks = [
            tensor.register_post_accumulate_grad_hook(partial(self._note, key))
            for key, tensor in parameters.items()
            if overlaps
        ]

    def begin_shard(self, update: int, number: int) -> None:
        """Clear the gradients for the pass of a shard.

        Args:
            update: Number of the update.
            number: Of the shard among those of this rank.
        """
        self._update, self._shard = update, self._shards.numbers[number]
        for parameter in self._parameters.values():
            parameter.grad = None

    def end_shard(self) -> Tensor:
        """Take what has not been taken yet; after the last shard send it.

        Returns:
            1 for each parameter with a gradient, 0 for the others.

        Raises:
            UnsupportedError: A gradient is sparse, or one has changed that was sent before.
        """
        has_gradient = torch.zeros(len(self._parameters), dtype=torch.float64)
        for number, (key, parameter) in enumerate(self._parameters.items()):
            gradient = parameter.grad
            has_gradient[number] = gradient is not None
            if gradient is not None and gradient.layout is not torch.strided:
                raise UnsupportedError(
                    f"the gradient of {key!r} is sparse, and only dense ones are summed; make its layer "
                    "with sparse=False"
                )
            came, count = self._came.pop(key, (gradient, None))
            stayed = came is gradient and (gradient is None or count in {None, gradient._version})
            self._is_steady &= stayed
            if key not in self._added:
                self._add(key)
            elif not stayed:
                raise UnsupportedError(
                    f"the gradient of {key!r} changed after backward had left it, when it was on its way to "
                    "the other ranks; call backward once in each shard and change gradients after the last "
                    "one, or let them be sent later with Exchange(..., overlap=False)"
                )
            parameter.grad = None
        if self._shard == self._shards.numbers[-1]:
            self.num_sent_early = self._num_pushed
            self._push_complete()
            self._sends_early, self._is_steady = bool(self._hooks) and self._is_steady, True
            self._num_pushed = 0
        self._shard, self._added = None, set()
        return has_gradient

    def mean(self, key: str) -> Tensor:
        """Return what becomes the mean over all shards of a parameter's gradients."""
        return self._exchange.mean(key)

    def close(self) -> None:
        """Leave the parameters alone."""
        for hook in self._hooks:
            hook.remove()

    def _note(self, key: str, parameter: Tensor) -> None:
        """Take note of a gradient that backward has left; send what is complete by it."""
        gradient = parameter.grad
        if self._shard is None or gradient is None or key in self._came:
            return
        self._came[key] = (gradient, gradient._version)
        is_last = self._shard == self._shards.numbers[-1]
        if self._sends_early and is_last and gradient.layout is torch.strided:
            self._add(key)
            self._push_complete()

    def _add(self, key: str) -> None:
        assert self._shard is not None
        self._exchange.add(self._shard, key, self._parameters[key].grad)
        self._added.add(key)

    def _push_complete(self) -> None:
        """Push the slices whose turn it is and whose gradients are all there."""
        for number in self._exchange.plan.order[self._num_pushed :]:
            if any(span.key not in self._added for span in self._layout.slices[number]):
                return
            self._exchange.push_slice(self._update, number, self._variables[number])
            self._num_pushed += 1
