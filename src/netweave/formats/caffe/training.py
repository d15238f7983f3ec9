"""Caffe's files of a run: weights as ``.caffemodel``, the solver's state as ``.solverstate``.

The functions are those that ``formats.registry.RunFiles`` names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from netweave.errors import ReadError
from netweave.files.source import is_file
from netweave.formats.caffe import parameters
from netweave.formats.caffe.weights import read_weights
from netweave.graph import Graph, complete_arrays
from netweave.job import FoundState, RunState

_WRITERS = {
    "caffemodel": (parameters.encode_net, parameters.encode_state, "solverstate"),
    "caffemodel.h5": (parameters.encode_net_hdf5, parameters.encode_state_hdf5, "solverstate.h5"),
}
"""Forms of weights: how they are written, how the solver's state beside them, and how that is called."""

weights_for = parameters.fitting_arrays
"""Return what a file of weights has for a net, by key."""


def encode_weights(graph: Graph, suffix: str) -> bytes:
    """Return a file of the weights of a net, in one of the forms of ``files_of``."""
    encode_net, _, _ = _WRITERS[suffix]
    return encode_net(graph, complete_arrays(graph))


def files_of(state: RunState, suffix: str, prefix: str) -> list[tuple[Path, Callable[[], bytes]]]:
    """Return the files of a snapshot, and functions that give their bytes.

    Args:
        state: The run.
        suffix: Which form: ``caffemodel`` or ``caffemodel.h5``.
        prefix: Path that the names of the run's files start with.
    """
    encode_net, encode_state, tail = _WRITERS[suffix]
    stem = f"{prefix}_iter_{state.iteration}"
    weights = Path(f"{stem}.{suffix}")
    history = tuple(
        np.asarray(arrays[key]) if key in arrays else np.zeros(state.graph.parameters[key].shape)
        for arrays in state.kept.values()
        for key in parameters.parameter_order(state.graph)
    )
    step = int(state.policy.get("current_step", 0))
    solver = parameters.SolverState(state.iteration, str(weights), history, step)
    return [
        (weights, partial(encode_net, state.graph, state.parameters, state.gradients)),
        (Path(f"{stem}.{tail}"), partial(encode_state, solver)),
    ]


def unused_in(path: Path, keys: Iterable[str]) -> list[str]:
    """Return the layers of a file of weights that have none of some parameters: "Ignoring source layer"."""
    used = {key.rpartition("/")[0] for key in keys}
    return [name for name in read_weights(path).names() if name not in used]


def read_state(path: Path, graph: Graph, names: Sequence[str]) -> FoundState:
    """Read where Caffe, or a run here, wrote a ``.solverstate``.

    Args:
        path: The file.
        graph: The training net.
        names: What the update rule keeps for each parameter, in Caffe's order.

    Raises:
        SourceError: The state cannot be read, or is of another net or solver.
    """
    state = parameters.read_state(path)
    order = parameters.parameter_order(graph)
    if len(state.history) != len(order) * len(names):
        raise ReadError(
            f"holds {len(state.history)} arrays, expected {len(order) * len(names)} ({len(names)} for "
            "each parameter); does it belong to another net or solver type?",
            place=str(path),
        )
    kept: dict[str, dict[str, np.ndarray]] = {name: {} for name in names}
    rows = [(name, key) for name in names for key in order]
    for (name, key), array in zip(rows, state.history, strict=True):
        parameter = graph.parameters[key]
        if array.size != parameter.size:
            raise ReadError(
                f"its array for {key} has {array.size:,} elements, the net {parameter.size:,}",
                place=str(path),
            )
        kept[name][key] = np.array(array).reshape(parameter.shape)
    policy = {"current_step": state.current_step}
    return FoundState(state.iteration, _learned_net(path, state.learned_net), kept, policy)


def _learned_net(path: Path, name: str) -> Path:
    """Return the weights that go with a state: where it says, or beside it."""
    stem, _, rest = path.name.partition(".solverstate")
    beside = path.with_name(f"{stem}.caffemodel{rest}")
    places = (Path(name), path.parent / Path(name).name, beside)
    learned = next((file for file in places if is_file(file)), None)
    if learned is None:
        raise ReadError(f"needs the weights {name!r}, which are missing", place=str(path))
    return learned
