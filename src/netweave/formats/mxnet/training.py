"""MXNet's files of a run: ``PREFIX-0001.params``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from netweave.formats.mxnet.ndarray import encode_params
from netweave.graph import Graph, complete_arrays

if TYPE_CHECKING:
    from netweave.job import RunState


def encode_weights(graph: Graph, suffix: str) -> bytes:
    """Return a file of the weights of a net."""
    return encode_params(graph, complete_arrays(graph))


def files_of(state: RunState, suffix: str, prefix: str) -> list[tuple[Path, Callable[[], bytes]]]:
    """Return the file of the weights, and a function that gives its bytes."""
    arrays = complete_arrays(state.graph) | dict(state.parameters)
    path = Path(f"{prefix}-{state.iteration:04d}.{suffix}")
    return [(path, partial(encode_params, state.graph, arrays))]
