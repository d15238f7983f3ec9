"""Sequences of arrays or symbols: as one with an axis of steps, or as a list of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.errors import UsageError
from netweave.formats.mxnet.symbol import Symbol
from netweave.mxnet import ndarray as nd
from netweave.mxnet import symbol as sym

if TYPE_CHECKING:
    from collections.abc import Sequence

Steps = list[Any]


def operators_of(values: Any) -> Any:
    """Return ``mx.sym`` for symbols and ``mx.nd`` for arrays."""
    one = values[0] if isinstance(values, list | tuple) else values
    return sym if isinstance(one, Symbol) else nd


def split(inputs: Any, length: int, axis: int) -> Steps:
    """Return the steps of a sequence.

    Raises:
        UsageError: There is another number of them.
    """
    if isinstance(inputs, list | tuple):
        steps = list(inputs)
    else:
        count = length if isinstance(inputs, Symbol) else inputs.shape[axis]
        parts = operators_of(inputs).SliceChannel(inputs, axis=axis, num_outputs=count, squeeze_axis=1)
        steps = [parts] if isinstance(parts, nd.NDArray) else list(parts)
    if len(steps) != length:
        raise UsageError(f"{len(steps)} inputs are given for {length} steps")
    return steps


def join(steps: Any, axis: int) -> Any:
    """Return steps as one sequence; one that is none of steps as it is."""
    return operators_of(steps).stack(*steps, axis=axis) if isinstance(steps, list | tuple) else steps


def batch_size(inputs: Any, batch_axis: int) -> int:
    """Return the records in a batch; 0 where symbols do not say it."""
    if operators_of(inputs) is sym:
        return 0
    size: int = inputs[0].shape[0] if isinstance(inputs, list | tuple) else inputs.shape[batch_axis]
    return size


def mask(inputs: Any, valid_length: Any, axis: int) -> Any:
    """Return a sequence with zeros behind the end of each record."""
    whole = join(inputs, axis)
    settings = {"sequence_length": valid_length, "use_sequence_length": True, "axis": axis}
    return operators_of(whole).SequenceMask(whole, **settings)


def reverse(steps: Sequence[Any], valid_length: Any) -> Steps:
    """Return steps backwards, each record from its own end."""
    if valid_length is None:
        return list(reversed(steps))
    whole = join(list(steps), 0)
    settings = {"sequence_length": valid_length, "use_sequence_length": True}
    return split(operators_of(whole).SequenceReverse(whole, **settings), len(steps), 0)


def last(steps: Sequence[Any], valid_length: Any) -> Any:
    """Return the last step of each record."""
    whole = join(list(steps), 0)
    settings = {"sequence_length": valid_length, "use_sequence_length": True, "axis": 0}
    return operators_of(whole).SequenceLast(whole, **settings)
