"""Files of what an optimizer keeps: MXNet reads those written here, and those that MXNet wrote are read.

MXNet's files lack the counts of updates and what some optimizers keep beside their arrays, so that
a training of MXNet's that goes on from a file counts from 0. Here they stand under a key of their own, which
MXNet passes over.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.errors import UsageError
from netweave.files import read_bytes
from netweave.files.output_files import write_file
from netweave.formats.mxnet.states import decode_states, encode_states

if TYPE_CHECKING:
    from netweave.mxnet.ndarray.array import NDArray
    from netweave.mxnet.optimizer import Optimizer, Updater

OWN = "netweave"
"""The key for what MXNet's files lack; MXNet's keys are numbers, or names of arrays of the net."""


def write_states(updater: Updater, fname: str) -> None:
    """Write what an optimizer keeps.

    Raises:
        UsageError: A state is no array and no tuple of arrays.
        WriteError: The file cannot be written; the old one is untouched.
    """
    write_file(fname, states_content(updater))


def states_content(updater: Updater) -> bytes:
    """Return the content of the file that ``write_states`` writes."""
    optimizer = updater.optimizer
    states = {index: _as_numpy(state) for index, state in updater.states.items()}
    left_out = {index: _as_numpy(optimizer.left_out(index)) for index in updater.states}
    own = {
        "num_update": optimizer.num_update,
        "counts": dict(optimizer._index_update_count),
        "memory": dict(getattr(optimizer, "_memory", {})),
        "states": {index: arrays for index, arrays in left_out.items() if arrays},
    }
    return encode_states({**states, OWN: own})


def read_into(updater: Updater, fname: str, weights: Mapping[Any, NDArray]) -> None:
    """Go on with what ``write_states``, or MXNet, wrote; see ``restore_states``.

    Raises:
        ReadError: The file cannot be read.
    """
    restore_states(updater, read_bytes(Path(fname)), fname, weights)


def restore_states(updater: Updater, content: bytes, fname: str, weights: Mapping[int, NDArray]) -> None:
    """Go on with what a file of an optimizer's states holds.

    Args:
        updater: What updates the arrays.
        content: The content of the file.
        fname: Its name.
        weights: The arrays that are updated, by number. Files of MXNet may have the arrays' names instead.

    Raises:
        ReadError: The file cannot be read, or holds no states of an optimizer.
        UnsupportedError: It holds what is no array.
        UsageError: It is of another optimizer or another net.
    """
    stored, attributes = decode_states(content, fname)
    optimizer = updater.optimizer
    own = stored.pop(OWN, None) or {}
    left_out = own.get("states", {})
    for index, weight in weights.items():
        if not stored:  # saved before the first update
            break
        key = index if index in stored else optimizer.idx2name.get(index)
        fresh = optimizer.create_state_multi_precision(index, weight)
        place = f"{fname}: array {optimizer.idx2name.get(index, index)!r}"
        if key not in stored:
            raise UsageError(
                f"{place}: the file has no state of it; it was saved with another net: it has "
                f"{', '.join(map(repr, list(stored)[:5])) or 'none'}"
            )
        _fill(fresh, stored[key], place)
        if key in left_out:
            _fill(optimizer.left_out(index), left_out[key], place)
        updater.states[index] = fresh
    _restore_counts(optimizer, own or attributes, weights)


def _restore_counts(optimizer: Optimizer, found: Mapping[str, Any], weights: Mapping[int, NDArray]) -> None:
    """Restore the counts of updates; a file without them counts from where the optimizer begins."""
    first = optimizer.begin_num_update
    counts = found.get("counts", found.get("_index_update_count", {}))
    named = {index: counts.get(index, counts.get(optimizer.idx2name.get(index))) for index in weights}
    optimizer._index_update_count = {index: int(n) for index, n in named.items() if n is not None}
    optimizer.num_update = int(found.get("num_update", first))
    getattr(optimizer, "_memory", {}).update(found.get("memory", optimizer.memory_of(found)))


def _as_numpy(state: Any) -> Any:
    """Return a state with NumPy's arrays in place of MXNet's."""
    if isinstance(state, tuple | list):
        return tuple(_as_numpy(one) for one in state)
    return state.asnumpy() if hasattr(state, "asnumpy") else state


def _fill(fresh: Any, stored: Any, place: str) -> None:
    """Give the arrays of a state the numbers of a stored one.

    Raises:
        UsageError: The two have other parts or sizes.
    """
    if isinstance(fresh, tuple | list) and isinstance(stored, tuple) and len(fresh) == len(stored):
        for pair in zip(fresh, stored, strict=True):
            _fill(*pair, place)
    elif hasattr(fresh, "asnumpy") and hasattr(stored, "shape") and fresh.shape == stored.shape:
        fresh[:] = stored
    elif fresh is not None or stored is not None:
        raise UsageError(
            f"{place}: the saved state is {_described(stored)}, the optimizer keeps {_described(fresh)}; "
            "was it saved with the same net and optimizer?"
        )


def _described(state: Any) -> str:
    if isinstance(state, tuple | list):
        return f"({', '.join(map(_described, state))})"
    shape: tuple[int, ...] | None = getattr(state, "shape", None)
    return "nothing" if state is None else f"an array of {'x'.join(map(str, shape))}" if shape else "a number"
