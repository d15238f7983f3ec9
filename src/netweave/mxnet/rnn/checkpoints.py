"""Checkpoints of nets with cells: the weights of gates by themselves, so that cells can be exchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.mxnet import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable


def _cells(cells: Any) -> list[Any]:
    return list(cells) if isinstance(cells, list | tuple) else [cells]


def save_rnn_checkpoint(
    cells: Any, prefix: str, epoch: int, symbol: Any, arg_params: Any, aux_params: Any
) -> None:
    """Write a checkpoint with the weights of gates by themselves."""
    for cell in _cells(cells):
        arg_params = cell.unpack_weights(arg_params)
    checkpoint.save_checkpoint(prefix, epoch, symbol, arg_params, aux_params)


def load_rnn_checkpoint(cells: Any, prefix: str, epoch: int) -> tuple[Any, Any, Any]:
    """Return symbol and arrays of a checkpoint, the weights of gates put together."""
    symbol, args, states = checkpoint.load_checkpoint(prefix, epoch)
    for cell in _cells(cells):
        args = cell.pack_weights(args)
    return symbol, args, states


def do_rnn_checkpoint(cells: Any, prefix: str, period: int = 1) -> Callable[..., None]:
    """Return a callback that writes a checkpoint after every ``period`` epochs."""
    every = int(max(1, period))

    def callback(iter_no: int, sym: Any = None, arg: Any = None, aux: Any = None) -> None:
        if (iter_no + 1) % every == 0:
            save_rnn_checkpoint(cells, prefix, iter_no + 1, sym, arg, aux)

    return callback
