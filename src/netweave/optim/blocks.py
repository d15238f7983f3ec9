"""Cutting parameters into blocks: which elements an update rule is given at once.

On a CPU the arithmetic of a rule is several passes over memory. Parameters are therefore cut so that a
block with its gradients and state stays in the cache while the passes are made; small parameters are put
together. On other devices a block is all parameters that share their multipliers, so that there are few
launches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

BLOCK_ELEMENTS = 1 << 18
"""Most elements in one block on a CPU; whole vectors of any processor, so that cutting changes no bit."""


@dataclass(frozen=True, slots=True)
class Trained:
    """A parameter that an updater changes.

    Attributes:
        key: Its name; unique.
        tensor: Its values; the gradient is in ``tensor.grad``, none counts as zeros.
        lr_mult: Factor on the learning rate; with 0 the parameter is left alone.
        decay_mult: Factor on the weight decay.
    """

    key: str
    tensor: torch.Tensor
    lr_mult: float = 1.0
    decay_mult: float = 1.0


@dataclass(frozen=True, slots=True)
class Piece:
    """Some elements of a parameter, in the order in which they lie in memory.

    Attributes:
        parameter: The parameter.
        span: First element and the one after the last; None for the parameter as it is.
    """

    parameter: Trained
    span: tuple[int, int] | None = None

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return these elements of a tensor that lies in memory as the parameter does."""
        if self.span is None:
            return tensor
        start, stop = self.span
        return tensor.as_strided((stop - start,), (1,), tensor.storage_offset() + start)


def plan(parameters: Sequence[Trained], *, by_parameter: bool) -> list[list[Piece]]:
    """Return the blocks of one update; all pieces of a block have equal multipliers, device and type.

    Args:
        parameters: What to cut.
        by_parameter: Make each parameter a block, in the order given.
    """
    if by_parameter:
        return [[Piece(parameter)] for parameter in parameters]
    groups: dict[tuple[object, ...], list[Trained]] = {}
    for parameter in parameters:
        tensor = parameter.tensor
        shared = (parameter.lr_mult, parameter.decay_mult, tensor.device, tensor.dtype)
        groups.setdefault(shared, []).append(parameter)
    blocks: list[list[Piece]] = []
    for group in groups.values():
        if group[0].tensor.device.type == "cpu":
            blocks.extend(_pack(piece for parameter in group for piece in _cut(parameter)))
        else:
            blocks.append([Piece(parameter) for parameter in group])
    return blocks


def like(tensor: torch.Tensor | None, model: torch.Tensor) -> torch.Tensor:
    """Return a tensor's values, laid out in memory as another of the same shape; zeros for None."""
    if tensor is None:
        return torch.zeros_like(model)
    pairs = zip(tensor.shape, tensor.stride(), model.stride(), strict=True)
    if all(here == there for size, here, there in pairs if size > 1):
        return tensor
    return torch.empty_like(model).copy_(tensor)


def _cut(parameter: Trained) -> Iterator[Piece]:
    size = parameter.tensor.numel()
    if not _dense(parameter.tensor):
        yield Piece(parameter)
        return
    for start in range(0, size, BLOCK_ELEMENTS):
        yield Piece(parameter, (start, min(start + BLOCK_ELEMENTS, size)))


def _pack(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    block: list[Piece] = []
    room = BLOCK_ELEMENTS
    for piece in pieces:
        size = piece.span[1] - piece.span[0] if piece.span else piece.parameter.tensor.numel()
        if block and size > room:
            yield block
            block, room = [], BLOCK_ELEMENTS
        block.append(piece)
        room -= size
    if block:
        yield block


def _dense(tensor: torch.Tensor) -> bool:
    """Whether the elements lie side by side, in whatever order of axes."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride != expected:
                return False
            expected *= size
    return True
