"""The stored arrays of a net as torch tensors, kept by the source's names and shared by nets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir
import torch
from torch import Tensor, nn

from netweave.graph import Parameter, parameter_layout
from netweave.graph.parameters import Step, inverse_layout, ranges_of
from netweave.graph.stored import source_array, values_of
from netweave.runtime.backends.torch.device import to_tensor


@dataclass(frozen=True, slots=True)
class Stored:
    """One array of the source as a tensor.

    Attributes:
        parameter: Its entry in the graph.
        tensor: The leaf that a net computes with and a solver changes, in the layout after ``steps``.
        steps: From the source's layout to that of ``tensor``.
        constant: Whether no node reads it, so that it keeps its value whatever is written to it.
    """

    parameter: Parameter
    tensor: Tensor
    steps: tuple[Step, ...]
    constant: bool = False

    def steps_to(self, layout: Sequence[Step]) -> list[Step]:
        """Return the steps from ``tensor`` to an initializer of another layout; none if it has it."""
        if tuple(layout) == self.steps:
            return []
        return [*inverse_layout(self.steps, self.parameter.shape), *layout]

    def as_source(self, tensor: Tensor) -> Tensor:
        """Return a tensor of the layout of ``tensor`` as a view in the source's layout."""
        return _viewed(tensor, inverse_layout(self.steps, self.parameter.shape))


class ParameterStore:
    """Arrays by key; nets that are given the same store compute with the same tensors.

    Attributes:
        channels_last: Whether filters, and with them the images of a net, have their channels last in
            memory. Sizes and results are the same; on a CPU it is faster (``benchmarks/training``).
    """

    def __init__(self, *, channels_last: bool = True) -> None:
        self._stored: dict[str, Stored] = {}
        self.channels_last = channels_last

    def __getitem__(self, key: str) -> Stored:
        return self._stored[key]

    def __contains__(self, key: str) -> bool:
        return key in self._stored

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def add(self, parameter: Parameter, values: Sequence[ir.Value]) -> Stored:
        """Return the array of a key, put into the store from its initializers if it is new.

        The leaf has the layout of the first initializer, in which it is used most, if the source's layout is
        a view of that; otherwise it has the source's.
        """
        if parameter.key in self._stored:
            return self._stored[parameter.key]
        steps = tuple(parameter_layout(values[0]))
        tensor = self.placed(to_tensor(values_of(values[0])))
        if not _has_view_back(tensor, steps, parameter.shape):
            tensor, steps = to_tensor(source_array(parameter, values)), ()
        if tensor.is_floating_point():
            tensor = nn.Parameter(tensor, requires_grad=parameter.trainable)
        self._stored[parameter.key] = Stored(parameter, tensor, steps)
        return self._stored[parameter.key]

    def share(self, parameter: Parameter, stored: Stored) -> None:
        """Put in an array that another store holds, perhaps by another key: nets of both compute with it."""
        self._stored[parameter.key] = replace(stored, parameter=parameter)

    def add_constant(self, parameter: Parameter, values: np.ndarray) -> None:
        """Put in an array that belongs to the net's parameters although no node reads it.

        MXNet lists the gamma of a BatchNorm with ``fix_gamma`` among the arguments, saves and loads it, but
        writes 1 over whatever it holds (batch_norm.cc), so writes to it are ignored here.
        """
        if parameter.key not in self._stored:
            self._stored[parameter.key] = Stored(parameter, to_tensor(values), (), constant=True)

    def adopt(self, parameter: Parameter, tensor: Tensor) -> Tensor:
        """Put in an array of the caller's, in the source's layout; return the leaf that shares its memory.

        Args:
            parameter: Its entry; a key that is there already gets the new tensor.
            tensor: Its elements, which the net reads and changes in place.
        """
        trained = parameter.trainable and tensor.is_floating_point()
        leaf = nn.Parameter(tensor.detach(), requires_grad=trained)
        self._stored[parameter.key] = Stored(parameter, leaf, ())
        return leaf

    def placed(self, tensor: Tensor) -> Tensor:
        """Return images or filters in the memory format that nets compute in; the rest as it is."""
        last = self.channels_last and tensor.ndim == 4
        return tensor.contiguous(memory_format=torch.channels_last) if last else tensor


def laid_out(tensor: Tensor, kind: str, numbers: Sequence[int]) -> Tensor:
    """Take one step of a layout, as a view where that is possible."""
    if kind == "transpose":
        return tensor.permute(numbers)
    if kind == "reshape":
        return tensor.reshape(numbers)
    flat = tensor.reshape(-1)
    return torch.cat([flat[begin:end] for begin, end in ranges_of(numbers)])


def _viewed(tensor: Tensor, steps: Iterable[Step]) -> Tensor:
    for kind, numbers in steps:
        tensor = tensor.permute(numbers) if kind == "transpose" else tensor.view(numbers)
    return tensor


def _has_view_back(tensor: Tensor, steps: Sequence[Step], shape: Sequence[int]) -> bool:
    """Return whether the source's layout is a view of a tensor that came from it by some steps."""
    try:
        _viewed(tensor, inverse_layout(steps, shape))
    except (RuntimeError, ValueError):
        return False
    return True


def _is_same(own: Tensor, value: Tensor) -> bool:
    """Return whether a value is the view itself, after something was done to it in place."""
    placed = (own.data_ptr(), own.shape, own.stride()) == (value.data_ptr(), value.shape, value.stride())
    return placed and own.dtype == value.dtype and own.numel() > 0


class Views(MutableMapping[str, Tensor]):
    """Tensors by the source's names and in its layouts, all views: writing to them changes the net.

    ``views[key] = value`` copies into the tensor that is there, unless the value is that tensor already, so
    that ``views[key] -= step`` works and costs no copy. An array that no node reads keeps its value.

    Args:
        stored: The arrays by key.
        pick: The tensor of a view, from the array's own; None where there is none.
        wait: Called before each access: waits for what others still do to the arrays.
    """

    def __init__(
        self,
        stored: dict[str, Stored],
        pick: Callable[[Tensor], Tensor | None],
        wait: Callable[[], None] | None = None,
    ) -> None:
        self._stored = stored
        self._pick = pick
        self._wait = wait

    def __getitem__(self, key: str) -> Tensor:
        row = self._stored[key]
        if self._wait is not None:
            self._wait()
        tensor = self._pick(row.tensor)
        if tensor is None:
            raise KeyError(key)
        return row.as_source(tensor)

    def __setitem__(self, key: str, value: Tensor) -> None:
        own = self[key]
        if self._stored[key].constant or _is_same(own, value):
            return
        with torch.no_grad():
            own.copy_(value)

    def __delitem__(self, key: str) -> None:
        raise TypeError(f"a net's arrays cannot be removed: {key!r}")

    def __iter__(self) -> Iterator[str]:
        return (key for key, row in self._stored.items() if self._pick(row.tensor) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)
