"""SINGA's files of a run: ``step<N>-worker0``, the arrays of the net by name.

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
    """Return the file of a checkpoint, and a function that gives its bytes: ``worker.cc`` (Checkpoint).

    Args:
        state: The run.
        suffix: End of its name: ``worker0``, since one worker holds the whole of each parameter.
        prefix: Path that the names of the run's files start with.
    """
    path = Path(f"{prefix}{state.iteration}-{suffix}")
    return [(path, partial(encode_arrays, state.parameters, version=state.iteration))]


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
