"""Cutting a slice into blocks: which elements an update rule is given at once.

On a CPU the arithmetic of a rule is several passes over memory. A slice is therefore cut so that a block with
its gradients and state stays in the cache while the passes are made; small parameters are put together. On
other devices a block is all of a slice that shares its multipliers, so that there are few launches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from netweave.training.optim.layout import Span

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
        gradient_mult: Factor on the gradient, before the decay is added.
    """

    key: str
    tensor: torch.Tensor
    lr_mult: float = 1.0
    decay_mult: float = 1.0
    gradient_mult: float = 1.0


@dataclass(frozen=True, slots=True)
class Piece:
    """Some elements of a parameter, in the order in which they lie in memory.

    Attributes:
        parameter: The parameter.
        start: First element.
        stop: The one after the last.
        whole: Whether these are all elements, which keep their shape.
    """

    parameter: Trained
    start: int
    stop: int
    whole: bool

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return these elements of a tensor that lies in memory as the parameter does."""
        if self.whole:
            return tensor
        return tensor.as_strided((self.stop - self.start,), (1,), tensor.storage_offset() + self.start)


def plan(
    spans: Sequence[Span],
    parameters: dict[str, Trained],
    *,
    by_parameter: bool,
    whole: bool,
    in_one_pass: bool = False,
) -> list[list[Piece]]:
    """Return the blocks of a slice; all pieces of a block have equal multipliers, device and type.

    Args:
        spans: The elements of the slice.
        parameters: The parameters by key.
        by_parameter: Let no block have elements of two parameters.
        whole: Let each block be a whole parameter.
        in_one_pass: Leave blocks as large as they are: the rule reads and writes each element once.
    """
    if whole:
        return [[piece_of(parameters[span.key], span)] for span in spans]
    groups: dict[tuple[object, ...], list[Span]] = {}
    for span in spans:
        parameter = parameters[span.key]
        tensor = parameter.tensor
        multipliers = (parameter.lr_mult, parameter.decay_mult, parameter.gradient_mult)
        shared = (*multipliers, tensor.device, tensor.dtype)
        groups.setdefault((span.key,) if by_parameter else shared, []).append(span)
    blocks: list[list[Piece]] = []
    for group in groups.values():
        if parameters[group[0].key].tensor.device.type == "cpu" and not in_one_pass:
            blocks.extend(_pack(piece for span in group for piece in _cut(parameters[span.key], span)))
        else:
            blocks.append([piece_of(parameters[span.key], span) for span in group])
    return blocks


def like(tensor: torch.Tensor | None, model: torch.Tensor) -> torch.Tensor:
    """Return a tensor's values, laid out in memory as another of the same shape; zeros for None."""
    if tensor is None:
        return torch.zeros_like(model)
    pairs = zip(tensor.shape, tensor.stride(), model.stride(), strict=True)
    if all(here == there for size, here, there in pairs if size > 1):
        return tensor
    return torch.empty_like(model).copy_(tensor)


def piece_of(parameter: Trained, span: Span) -> Piece:
    """Return the elements of a span as one piece."""
    return _piece(parameter, span.start, span.stop)


def _piece(parameter: Trained, start: int, stop: int) -> Piece:
    return Piece(parameter, start, stop, whole=stop - start == parameter.tensor.numel())


def _cut(parameter: Trained, span: Span) -> Iterator[Piece]:
    for start in range(span.start, span.stop, BLOCK_ELEMENTS):
        yield _piece(parameter, start, min(start + BLOCK_ELEMENTS, span.stop))


def _pack(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    block: list[Piece] = []
    room = BLOCK_ELEMENTS
    for piece in pieces:
        size = piece.stop - piece.start
        if block and size > room:
            yield block
            block, room = [], BLOCK_ELEMENTS
        block.append(piece)
        room -= size
    if block:
        yield block


def is_dense(tensor: torch.Tensor) -> bool:
    """Return whether the elements lie side by side, in whatever order of axes."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride != expected:
                return False
            expected *= size
    return True
