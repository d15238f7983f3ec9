"""Writing and reading checkpoints: a symbol file and a file of arrays, as MXNet has them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from netweave.files.output_files import Replacement
from netweave.formats.mxnet.symbol import Symbol
from netweave.formats.mxnet.symbol import load as load_symbol
from netweave.mxnet import ndarray as nd
from netweave.mxnet.ndarray.array import NDArray

Arrays = dict[str, NDArray]


def save_checkpoint(
    prefix: str,
    epoch: int,
    symbol: Symbol | None,
    arg_params: Mapping[str, NDArray],
    aux_params: Mapping[str, NDArray],
    remove_amp_cast: bool = True,
) -> None:
    """Write ``PREFIX-symbol.json`` and ``PREFIX-0001.params``, which MXNet reads.

    Raises:
        WriteError: The files cannot be written; the old ones are untouched.
    """
    weights = Path(f"{prefix}-{epoch:04d}.params")
    arrays = {f"arg:{name}": array for name, array in arg_params.items()}
    arrays |= {f"aux:{name}": array for name, array in aux_params.items()}
    with Replacement(weights) as new:
        if symbol is not None:
            symbol.save(new.folder / f"{Path(prefix).name}-symbol.json")
        nd.save(str(new.folder / weights.name), arrays)
    logging.info('Saved checkpoint to "%s-%04d.params"', prefix, epoch)


def load_params(prefix: str, epoch: int) -> tuple[Arrays, Arrays]:
    """Return the arrays of a checkpoint: those that are learnt, and the auxiliary states.

    Raises:
        ReadError: The file cannot be read, or is none.
    """
    arrays = nd.load(f"{prefix}-{epoch:04d}.params")
    args = {name.removeprefix("arg:"): array for name, array in arrays.items() if name.startswith("arg:")}
    states = {name.removeprefix("aux:"): array for name, array in arrays.items() if name.startswith("aux:")}
    return args, states


def load_checkpoint(prefix: str, epoch: int) -> tuple[Symbol, Arrays, Arrays]:
    """Return symbol and arrays of a checkpoint.

    Raises:
        ReadError: A file cannot be read, or is none.
    """
    return (load_symbol(Path(f"{prefix}-symbol.json")), *load_params(prefix, epoch))
