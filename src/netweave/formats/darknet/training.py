"""Darknet's files of a run: ``NET_1000.weights``; ``RunFiles`` names the functions."""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netweave.formats.darknet.reader import WeightFile, encode_weights
from netweave.graph import Graph

if TYPE_CHECKING:
    from netweave.job import RunState


def files_of(state: RunState, suffix: str, prefix: str) -> list[tuple[Path, Callable[[], bytes]]]:
    """Return the file of the weights, and a function that gives its bytes.

    Args:
        state: The run.
        suffix: ``weights``.
        prefix: Path that the names of the run's files start with.
    """
    path = Path(f"{prefix}_{state.iteration}.{suffix}")
    arrays = [state.parameters[key] for key in state.graph.parameters]
    return [(path, partial(encode_weights, arrays, seen=state.samples))]


def weights_for(path: Path, graph: Graph) -> dict[str, np.ndarray]:
    """Return what a file of weights has for a net, by key; it may hold the first layers only.

    Such files (``darknet53.conv.74``) are cut off behind a layer; what follows begins with first values.

    Raises:
        ReadError: The file cannot be read.
        WeightError: It ends within an array, or holds more than the net has.
    """
    file = WeightFile(path)
    arrays: dict[str, np.ndarray] = {}
    for key, parameter in graph.parameters.items():
        if not file.num_left:
            return arrays
        place = f"layer {key.rpartition('/')[0]!r} of {graph.name}"
        shape = parameter.shape
        if file.transposed and _is_dense(graph, key):
            taken = file.take(shape[::-1], place=place, name=key.rpartition("/")[2])
            arrays[key] = taken.T
            continue
        arrays[key] = file.take(shape, place=place, name=key.rpartition("/")[2])
    file.finish()
    return arrays


def unused_in(path: Path, keys: Container[str]) -> list[str]:
    """Return no name: arrays have none, and ``weights_for`` refuses a file with more numbers than the net."""
    return []


def _is_dense(graph: Graph, key: str) -> bool:
    return key.startswith(("connected_", "conn_")) and graph.parameters[key].role == "weight"
