"""Connections between layers that are cut differently across workers, forwards and backwards.

All workers compute every connection, in the order of the graph, and so in one order: autograd takes what is
ready and was computed last, which is the reverse order, as every connection is an output of the ones before
it (tokens, ``graph.passes.partition``) or leads to the objective.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from netweave.graph import DOMAIN
from netweave.graph.passes.partition import Boxes, Part, Piece
from netweave.runtime.backends.torch.operator_table import lowering
from netweave.runtime.backends.torch.random import Draws, normal_words, uniform_words
from netweave.runtime.backends.torch.whole_batch import WholeBatch


@dataclass(frozen=True, slots=True)
class Move:
    """The part of one worker in a connection.

    Attributes:
        sent: What it sends to each worker.
        received: What it receives from each.
        source: Sizes of what it has.
        target: Sizes of what it gets.
        rank: Number of axes; a value of one axis has a single channel.
    """

    sent: tuple[tuple[Piece, ...], ...]
    received: tuple[tuple[Piece, ...], ...]
    source: tuple[int, ...]
    target: tuple[int, ...]
    rank: int

    def forward(self, value: Tensor | None, like: Tensor, batch: WholeBatch) -> Tensor:
        """Send a value, and return what comes."""
        own = self._full(value, self.source, like)
        parts = [_packed(own, pieces, at_source=True) for pieces in self.sent]
        made = like.new_empty(self.target)
        for pieces, part in zip(self.received, self._exchanged(parts, self.received, batch), strict=True):
            _unpack(part, made, pieces, at_source=False, adds=False)
        return made.reshape(self.target[: self.rank])

    def backward(self, above: Tensor, batch: WholeBatch) -> Tensor:
        """Send a gradient the way back, and return the sum of what comes."""
        whole = above.reshape(self.target)
        parts = [_packed(whole, pieces, at_source=False) for pieces in self.received]
        total = above.new_zeros(self.source)
        for pieces, part in zip(self.sent, self._exchanged(parts, self.sent, batch), strict=True):
            _unpack(part, total, pieces, at_source=True, adds=True)
        return total.reshape(self.source[: self.rank])

    def _full(self, value: Tensor | None, sizes: tuple[int, ...], like: Tensor) -> Tensor:
        if value is None:
            return like.new_empty(sizes)
        if tuple(value.shape) != sizes[: self.rank]:
            raise ValueError(
                f"a worker has {tuple(value.shape)} of a value, the net was cut for {sizes[: self.rank]}"
            )
        return value.detach().reshape(sizes)

    def _exchanged(
        self, parts: Sequence[Tensor], pieces: Sequence[Sequence[Piece]], batch: WholeBatch
    ) -> list[Tensor]:
        return batch.exchange(parts, [sum(piece.elements for piece in rows) for rows in pieces])


@lru_cache(maxsize=4096)
def move(worker: int, source: str, target: str, rank: int) -> Move:
    """Return the part of a worker in a connection, from the attributes of its node."""
    before, after = Boxes.from_text(source), Boxes.from_text(target)
    workers = range(len(before.rows))
    return Move(
        tuple(tuple(before.pieces(worker, after, other)) for other in workers),
        tuple(tuple(before.pieces(other, after, worker)) for other in workers),
        before.sizes(worker),
        after.sizes(worker),
        rank,
    )


def _view(tensor: Tensor, piece: Piece, *, at_source: bool) -> Tensor:
    corner = piece.source if at_source else piece.target
    return tensor[tuple(slice(start, start + size) for start, size in zip(corner, piece.sizes, strict=True))]


def _packed(tensor: Tensor, pieces: Sequence[Piece], *, at_source: bool) -> Tensor:
    rows = [_view(tensor, piece, at_source=at_source).reshape(-1) for piece in pieces]
    return torch.cat(rows) if rows else tensor.new_empty(0)


def _unpack(part: Tensor, tensor: Tensor, pieces: Sequence[Piece], *, at_source: bool, adds: bool) -> None:
    taken = 0
    for piece in pieces:
        view = _view(tensor, piece, at_source=at_source)
        values = part[taken : taken + view.numel()].reshape(view.shape)
        taken += view.numel()
        view.add_(values) if adds else view.copy_(values)


class _Connection(torch.autograd.Function):
    """Moves a value forwards, and its gradient backwards.

    ``root`` needs a gradient, so that the way back is taken on workers that have nothing of the value too.
    """

    @staticmethod
    def forward(
        context: Any, root: Tensor, value: Tensor | None, way: Move, batch: WholeBatch, *tokens: Tensor
    ) -> Tensor:
        context.way, context.batch, context.num_tokens = way, batch, len(tokens)
        return way.forward(value, tokens[0] if value is None else value, batch)

    @staticmethod
    def backward(context: Any, *above: Tensor) -> tuple[Tensor | None, ...]:
        gradient = context.way.backward(above[0], context.batch)
        has_value = context.needs_input_grad[1]
        return None, gradient if has_value else None, None, None, *(None for _ in range(context.num_tokens))


def _connect(
    value: Tensor | None,
    *tokens: Tensor,
    worker: int,
    source: str,
    target: str,
    rank: int,
    trained: int = 1,
    batch: WholeBatch,
) -> Tensor:
    """Return what this worker has of a value in another layout."""
    way = move(worker, source, target, rank)
    like = tokens[0] if value is None else value
    if not trained or not like.is_floating_point():
        return way.forward(value, like, batch)
    root = torch.zeros((), requires_grad=True)
    made: Tensor = _Connection.apply(root, value, way, batch, *tokens)
    return made


for _name in ("Bridge", "Broadcast", "Gather", "Halo", "Regroup", "Slice"):
    lowering(_name, since=1, domain=DOMAIN)(_connect)


class PartDraws:
    """Random streams of a node that computes some channels, or some places, of the whole batch.

    The numbers are those of all channels and places, of which it takes its own.

    Args:
        draws: Those of the net.
        part: What the node computes.
    """

    def __init__(self, draws: Draws, part: Part) -> None:
        self._draws, self._part = draws, part

    def uniform(self, stream: int, shape: Sequence[int], *, device: torch.device | None = None) -> Tensor:
        """Return uniform float32 numbers in [0, 1)."""
        return self._taken(uniform_words, stream, shape, device)

    def normal(self, stream: int, shape: Sequence[int], *, device: torch.device | None = None) -> Tensor:
        """Return standard normal float32 numbers."""
        return self._taken(normal_words, stream, shape, device)

    def _taken(self, words: object, stream: int, shape: Sequence[int], device: torch.device | None) -> Tensor:
        part = self._part
        whole = (shape[0], part.num_channels, *(part.sizes or shape[2:]))[: len(shape)]
        own = self._draws.of_whole_batch(words, stream, whole)
        if len(shape) > 1:
            own = torch.cat([own[:, a:b] for a, b in part.channels], 1)
        for axis, (start, stop) in enumerate(part.places, 2):
            own = own.narrow(axis, start, stop - start)
        return own if device is None else own.to(device)
