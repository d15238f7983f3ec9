"""All trained elements in one row of memory, in the order of the flat layout: what is sent is a run of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from netweave.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netweave.training.optim.layout import FlatLayout, Span


class FlatRow:
    """A row of elements, and views of it that lie in memory as the parameters do.

    Args:
        layout: Where each parameter stands.
        parameters: The parameters by key; each a run of memory without holes.

    Attributes:
        row: All elements.

    Raises:
        UsageError: Parameters differ in type or device.
    """

    def __init__(self, layout: FlatLayout, parameters: Mapping[str, Tensor]) -> None:
        kinds = {(tensor.dtype, tensor.device) for tensor in parameters.values()}
        if len(kinds) > 1:
            raise UsageError(
                "parameters of several types or devices cannot be exchanged: "
                + ", ".join(sorted(f"{dtype} on {device}" for dtype, device in kinds))
            )
        self._layout = layout
        self._parameters = parameters
        self._bounds = [
            (
                min(layout.offsets[span.key] + span.start for span in spans),
                max(layout.offsets[span.key] + span.stop for span in spans),
            )
            for spans in layout.slices
        ]
        dtype, device = next(iter(kinds), (torch.float32, torch.device("cpu")))
        self.row = torch.zeros(max((stop for _, stop in self._bounds), default=0), dtype=dtype, device=device)
        self._runs = [
            [
                self.row[layout.offsets[span.key] + span.start : layout.offsets[span.key] + span.stop]
                for span in spans
            ]
            for spans in layout.slices
        ]

    def slice(self, number: int) -> Tensor:
        """Return the elements of a slice, as one contiguous tensor that shares their memory."""
        start, stop = self._bounds[number]
        return self.row[start:stop]

    def view(self, key: str) -> Tensor:
        """Return the elements of a parameter with its shape and strides."""
        tensor = self._parameters[key]
        return self.row.as_strided(tensor.size(), tensor.stride(), self._layout.offsets[key])

    def load(self, number: int, tensors: Mapping[str, Tensor | None], *, scale: float = 1.0) -> None:
        """Copy the elements of a slice into the row; zeros where a tensor is None.

        Args:
            number: The slice.
            tensors: By key, laid out in memory as the parameters.
            scale: Factor on what is copied.
        """
        with torch.no_grad():
            for span, target in zip(self._layout.slices[number], self._runs[number], strict=True):
                source = tensors[span.key]
                if source is None:
                    target.zero_()
                elif scale == 1.0:
                    target.copy_(_run(source, span))
                else:
                    torch.mul(_run(source, span), scale, out=target)

    def store(self, number: int, tensors: Mapping[str, Tensor]) -> None:
        """Copy the elements of a slice out of the row."""
        with torch.no_grad():
            for span, source in zip(self._layout.slices[number], self._runs[number], strict=True):
                _run(tensors[span.key], span).copy_(source)


class GradientRow(FlatRow):
    """A row into which the gradients of the parameters go: what is sent or summed is a run of it.

    Args:
        layout: Where each parameter stands.
        parameters: The parameters by key; each a run of memory without holes.
    """

    def __init__(self, layout: FlatLayout, parameters: Mapping[str, Tensor]) -> None:
        super().__init__(layout, parameters)
        # kept, since a view takes longer to make than a small gradient to copy
        self._views = {key: self.view(key) for key in parameters}
        self._own: dict[str, Tensor | None] = {}  # the gradients of backward, until they are in the row
        self._left: dict[str, int] = {}  # how many slices of each are still to be copied
        self._num_slices = {key: len(layout.slices_of(key)) for key in parameters}

    def take(self, number: int, *, scale: float = 1.0) -> Tensor:
        """Copy the gradients of a slice into the row, put views of the row in their place; return the slice.

        Args:
            number: The slice.
            scale: Factor on what is copied.
        """
        keys = [span.key for span in self._layout.slices[number]]
        for key in keys:
            parameter, view = self._parameters[key], self._views[key]
            is_view = parameter.grad is view
            if is_view and key in self._own:
                continue
            self._own[key] = None if is_view else _like(parameter.grad, parameter)  # a view is of an old one
            self._left[key] = self._num_slices[key]
            parameter.grad = view
        self.load(number, self._own, scale=scale)
        for key in keys:
            self._left[key] -= 1
            if not self._left[key]:  # let go of it now: backward goes on in memory that is in the cache still
                del self._own[key]
        return self.slice(number)


def copy_slice(
    layout: FlatLayout, number: int, source: Mapping[str, Tensor], target: Mapping[str, Tensor]
) -> None:
    """Copy the elements of a slice from tensors to others that lie in memory as they do."""
    with torch.no_grad():
        for span in layout.slices[number]:
            _run(target[span.key], span).copy_(_run(source[span.key], span), non_blocking=True)


def _like(gradient: Tensor | None, parameter: Tensor) -> Tensor | None:
    """Return a gradient that lies in memory as its parameter does."""
    if gradient is None or gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)


def _run(tensor: Tensor, span: Span) -> Tensor:
    """Return elements of a dense tensor in the order in which they lie in memory."""
    flat = tensor.detach()
    return flat.as_strided((span.stop - span.start,), (1,), flat.storage_offset() + span.start)
