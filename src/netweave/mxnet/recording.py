"""The recording mode that operators on arrays look at.

Torch records by default and MXNet only inside ``record()``: every operator on arrays runs under ``scope``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from netweave.errors import UsageError

GRAD_REQS = ("write", "add", "null")


class _State(threading.local):
    recording = False
    training = False


_state = _State()


def is_recording() -> bool:
    """Return whether operators are recorded."""
    return _state.recording


def is_training() -> bool:
    """Return whether operators behave as in training.

    In training, Dropout draws and BatchNorm uses the statistics of the batch.
    """
    return _state.training


def set_recording(is_recording: bool) -> bool:
    """Switch recording; return how it was."""
    before, _state.recording = _state.recording, is_recording
    return before


def set_training(train_mode: bool) -> bool:
    """Switch the training mode; return how it was."""
    before, _state.training = _state.training, train_mode
    return before


def scope() -> torch.set_grad_enabled:
    """Return the context manager under which operators are computed."""
    return torch.set_grad_enabled(_state.recording)


@contextmanager
def modes(*, recording: bool | None, training: bool | None) -> Iterator[None]:
    """Set the modes that are not None inside a ``with`` block."""
    before = (_state.recording, _state.training)
    _state.recording = before[0] if recording is None else recording
    _state.training = before[1] if training is None else training
    try:
        yield
    finally:
        _state.recording, _state.training = before


def record(train_mode: bool = True) -> Any:
    """Record what is computed in a ``with`` block, in training mode unless said otherwise."""
    return modes(recording=True, training=train_mode)


def pause(train_mode: bool = False) -> Any:
    """Record nothing of what is computed in a ``with`` block."""
    return modes(recording=False, training=train_mode)


def train_mode() -> Any:
    """Compute as in training in a ``with`` block."""
    return modes(recording=None, training=True)


def predict_mode() -> Any:
    """Compute as in a test in a ``with`` block."""
    return modes(recording=None, training=False)


def run_backward(
    heads: Sequence[Tensor], gradients: Sequence[Tensor | None] | None, *, retain_graph: bool = False
) -> None:
    """Differentiate the sum of heads; see ``autograd.backward``.

    Raises:
        UsageError: Nothing was recorded for a head.
    """
    torch.autograd.backward(list(heads), head_gradients(heads, gradients), retain_graph=retain_graph)


def head_gradients(heads: Sequence[Tensor], given: Sequence[Tensor | None] | None) -> list[Tensor]:
    """Return the gradients of heads; ones where none are given.

    Raises:
        UsageError: Nothing was recorded for a head.
    """
    if not all(tensor.requires_grad for tensor in heads):
        raise UsageError(
            "backward: nothing was recorded for this array; compute it inside autograd.record() from arrays "
            "with attach_grad()"
        )
    return [
        torch.ones_like(tensor) if one is None else one.to(tensor).reshape(tensor.shape)
        for tensor, one in zip(heads, given or [None] * len(heads), strict=True)
    ]
