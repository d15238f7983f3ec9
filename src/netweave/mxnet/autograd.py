"""``mx.autograd``: recording and differentiating, by torch's autograd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from netweave.errors import UsageError
from netweave.mxnet.ndarray.array import NDArray
from netweave.mxnet.recording import (
    head_gradients,
    is_recording,
    is_training,
    pause,
    predict_mode,
    record,
    run_backward,
    scope,
    set_recording,
    set_training,
    train_mode,
)

__all__ = [
    "Function",
    "backward",
    "get_symbol",
    "grad",
    "is_recording",
    "is_training",
    "mark_variables",
    "pause",
    "predict_mode",
    "record",
    "set_recording",
    "set_training",
    "train_mode",
]


def mark_variables(
    variables: NDArray | Sequence[NDArray],
    gradients: NDArray | Sequence[NDArray],
    grad_reqs: str | Sequence[str] = "write",
) -> None:
    """Give arrays the arrays that their gradients are written to.

    Raises:
        UsageError: A ``grad_req`` is none of write, add, null.
    """
    arrays, grads = _as_list(variables), _as_list(gradients)
    reqs = [grad_reqs] * len(arrays) if isinstance(grad_reqs, str) else list(grad_reqs)
    for array, gradient, req in zip(arrays, grads, reqs, strict=True):
        array.mark(gradient, req)


def backward(
    heads: NDArray | Sequence[NDArray],
    head_grads: NDArray | Sequence[NDArray | None] | None = None,
    retain_graph: bool = False,
    train_mode: bool = True,
) -> None:
    """Write the gradients of the sum of heads to the arrays that have been given places for them.

    Args:
        heads: What was computed.
        head_grads: Gradients of the heads; ones where there is none.
        retain_graph: Whether backward may be called again.
        train_mode: As MXNet has it; the mode of the recording counts.

    Raises:
        UsageError: Nothing was recorded for a head.
    """
    run_backward(_tensors(heads), _tensors(head_grads), retain_graph=retain_graph)


def grad(
    heads: NDArray | Sequence[NDArray],
    variables: NDArray | Sequence[NDArray],
    head_grads: NDArray | Sequence[NDArray | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    train_mode: bool = True,
) -> Any:
    """Return the gradients of the sum of heads with respect to variables: a list, or one for one variable.

    Raises:
        UsageError: Nothing was recorded for a head.
    """
    tensors = _tensors(heads)
    grads = head_gradients(tensors, _tensors(head_grads))
    wanted = _as_list(variables)
    gradients = torch.autograd.grad(
        tensors,
        [one.tensor for one in wanted],
        grads,
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        allow_unused=True,
    )
    arrays = [
        NDArray(torch.zeros_like(one.tensor) if gradient is None else gradient)
        for one, gradient in zip(wanted, gradients, strict=True)
    ]
    return arrays if isinstance(variables, list | tuple) else arrays[0]


def get_symbol(x: NDArray) -> Any:
    """Not here: what was recorded belongs to torch."""
    raise UsageError("autograd.get_symbol is not supported; build the net with mx.sym, or hybridize it")


class Function:
    """A function with a gradient of the user's own: subclass it with ``forward`` and ``backward``.

    Attributes:
        saved_tensors: What ``save_for_backward`` was given.
    """

    def __init__(self) -> None:
        self.saved_tensors: tuple[NDArray, ...] = ()

    def save_for_backward(self, *args: NDArray) -> None:
        """Keep arrays for ``backward``."""
        self.saved_tensors = args

    def forward(self, *inputs: NDArray) -> Any:
        """Return the outputs."""
        raise NotImplementedError

    def backward(self, *output_grads: NDArray) -> Any:
        """Return the gradients of the inputs."""
        raise NotImplementedError

    def __call__(self, *inputs: NDArray) -> Any:
        """Compute the outputs; while recording, ``backward`` differentiates them."""
        with scope():
            tensors = _Recorded.apply(self, *(one.tensor for one in inputs))
        arrays = [NDArray(tensor) for tensor in tensors]
        return arrays[0] if len(arrays) == 1 else arrays


class _Recorded(torch.autograd.Function):  # type: ignore[misc]  # torch says no types
    @staticmethod
    def forward(ctx: Any, function: Function, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.function = function
        with pause(train_mode=is_training()):
            outputs = function.forward(*(NDArray(tensor.detach()) for tensor in inputs))
        # an output that is an input itself would make torch return the input
        return tuple(one.tensor.view_as(one.tensor) for one in _as_list(outputs))

    @staticmethod
    def backward(ctx: Any, *above: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        with pause():
            gradients = ctx.function.backward(*(NDArray(tensor) for tensor in above))
        return (None, *(one.tensor for one in _as_list(gradients)))


def _as_list(arrays: Any) -> list[Any]:
    return list(arrays) if isinstance(arrays, list | tuple) else [arrays]


def _tensors(arrays: Any) -> Any:
    if arrays is None:
        return None
    return [None if one is None else one.tensor for one in _as_list(arrays)]
