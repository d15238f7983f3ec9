"""SINGA's files of a run: ``step<N>-worker<I>``, the arrays that a worker owns by name.

The functions are those that ``formats.registry.RunFiles`` names. SINGA writes neither the state of its
updater nor that of its learning rate, so that there is no file of a solver's state.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netweave.formats.singa.checkpoint import encode_arrays, read_checkpoints
from netweave.graph import Graph

if TYPE_CHECKING:
    from netweave.job import RunState


def files_of(state: RunState, suffix: str, prefix: str) -> list[tuple[Path, Callable[[], bytes]]]:
    """Return the files of a checkpoint, and functions that give their bytes: ``worker.cc`` (Checkpoint).

    Each worker writes its parts of the parameters that are cut; the first one writes what all have. A worker
    that owns nothing has no file.

    Args:
        state: The run.
        suffix: End of the name of the first worker's file, ``worker0``.
        prefix: Path that the names of the run's files start with.
    """
    files: list[tuple[Path, Callable[[], bytes]]] = []
    for worker in range(max(map(len, state.parts.values()), default=1)):
        own = {
            key: state.parts[key][worker] if key in state.parts else (None if worker else array)
            for key, array in state.parameters.items()
        }
        present = {key: array for key, array in own.items() if array is not None}
        path = Path(f"{prefix}{state.iteration}-{suffix.removesuffix('0')}{worker}")
        if present or not worker:
            files.append((path, partial(encode_arrays, present, version=state.iteration)))
    return files


def weights_for(path: Path, graph: Graph) -> dict[str, np.ndarray]:
    """Return what a checkpoint, or several with commas between, has for a net, by key.

    Arrays of version 0 are left out: SINGA draws them anew (``worker.cc``, InitNetParams).

    Raises:
        ReadError: A file cannot be read or is none.
        WeightError: An array is not whole, or of other sizes than in the net.
    """
    weights = read_checkpoints(path)
    arrays = {key: weights.find(key, parameter.shape) for key, parameter in graph.parameters.items()}
    return {key: array for key, array in arrays.items() if array is not None and key not in weights.fresh}


def unused_in(path: Path, keys: Container[str]) -> list[str]:
    """Return the names of arrays of a checkpoint, or of several, that are none of some parameters."""
    return [name for name in read_checkpoints(path).parts if name not in keys]
