"""What a checkpoint holds, and writing it beside the steps."""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from netweave.engine import Variable
from netweave.errors import ReadError, UsageError
from netweave.formats.caffe import snapshot
from netweave.formats.mxnet.params import encode_params
from netweave.graph import complete_arrays
from netweave.training.checkpoint import (
    Checkpoint,
    checkpoint_path,
    nested,
    prune,
    write_checkpoint,
    write_whole,
)
from netweave.training.nets import load_weights, memories, to_array

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netweave.backends.torch import TorchNet
    from netweave.engine import Engine
    from netweave.job import Job
    from netweave.optim import Updater


@dataclass(frozen=True, slots=True)
class Running:
    """What of a run changes: its nets and its solver."""

    job: Job
    nets: Mapping[str, TorchNet]
    updater: Updater

    def capture(self, state: Mapping[str, Any]) -> Checkpoint:
        """Return a copy of everything, with some JSON values beside it."""
        solver = self.updater.state_dict()
        arrays = {f"param:{key}": array for key, array in self.parameters().items()}
        for key, kept in solver["state"].items():
            arrays |= {f"solver:{name}:{key}": to_array(tensor) for name, tensor in kept.items()}
        arrays["generator"] = to_array(solver["generator"])
        for phase, net in self.nets.items():
            for name, memory in memories(net).items():
                for index, tensor in enumerate(memory.state or ()):
                    arrays[f"memory:{phase}:{name}:{index}"] = to_array(tensor)
        numbers = {name: solver[name] for name in ("iteration", "policy", "memory")}
        return Checkpoint({**state, "solver": numbers}, arrays)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on where ``capture`` was called.

        Raises:
            UsageError: The checkpoint is of another net or solver.
        """
        arrays = dict(nested(checkpoint.arrays, "param"))
        present = self.parameters()
        wrong = [
            key
            for key in {**present, **arrays}
            if key not in present or key not in arrays or arrays[key].shape != present[key].shape
        ]
        if wrong:
            raise UsageError(f"the checkpoint is of another net: {', '.join(sorted(wrong)[:5])} differ")
        state: dict[str, dict[str, torch.Tensor]] = {key: {} for key in self.updater.state}
        for name, array in nested(checkpoint.arrays, "solver"):
            kind, _, key = name.partition(":")
            state.setdefault(key, {})[kind] = torch.from_numpy(array)
        generator = torch.from_numpy(checkpoint.arrays["generator"])
        self.updater.load_state_dict({**checkpoint.state["solver"], "state": state, "generator": generator})
        for net in self.nets.values():
            for key in net.params:
                net.params[key] = torch.from_numpy(arrays[key])
        self._recall(checkpoint)

    def _recall(self, checkpoint: Checkpoint) -> None:
        found: dict[tuple[str, str], list[torch.Tensor]] = {}
        for key, array in nested(checkpoint.arrays, "memory"):
            phase, name, _ = key.split(":")
            found.setdefault((phase, name), []).append(torch.from_numpy(array))
        for phase, net in self.nets.items():
            for name, memory in memories(net).items():
                kept = found.get((phase, name))
                memory.state = tuple(kept) if kept else None

    def parameters(self) -> dict[str, np.ndarray]:
        """Return copies of all arrays in the source's layouts."""
        return {key: to_array(tensor) for net in self.nets.values() for key, tensor in net.params.items()}

    def gradients(self) -> dict[str, np.ndarray]:
        """Return copies of the last gradients; zeros where there is none."""
        net = self.nets["train"]
        zeros = {key: np.zeros(tensor.shape) for key, tensor in net.params.items()}
        return zeros | {key: to_array(tensor) for key, tensor in net.grads.items()}

    # Caffe's own state.

    def caffe_state(self, learned_net: str) -> snapshot.SolverState:
        """Return the solver's state as Caffe has it."""
        graph, store = self.job.phases["train"].graph, self.nets["train"].store
        history = []
        for name in self.updater.rule.names:
            for key in snapshot.parameter_order(graph):
                kept = self.updater.state.get(key)
                history.append(
                    np.zeros(graph.parameters[key].shape)
                    if kept is None
                    else to_array(store[key].as_source(kept[name]))
                )
        step = int(self.updater.policy.state().get("current_step", 0))
        return snapshot.SolverState(self.updater.iteration, learned_net, tuple(history), step)

    def restore_caffe(self, path: Path) -> None:
        """Go on where Caffe, or a run here, wrote a ``.solverstate``.

        Raises:
            SourceError: The state or its weights cannot be read, or are of another net or solver.
        """
        state = snapshot.read_state(path)
        graph, store = self.job.phases["train"].graph, self.nets["train"].store
        order = snapshot.parameter_order(graph)
        names = self.updater.rule.names
        if len(state.history) != len(order) * len(names):
            raise ReadError(
                f"holds {len(state.history)} arrays, expected {len(order) * len(names)} ({len(names)} for "
                "each parameter); is it of another net or type of solver?",
                place=str(path),
            )
        rows = [(name, key) for name in names for key in order]
        for (_, key), array in zip(rows, state.history, strict=True):
            if array.size != graph.parameters[key].size:
                raise ReadError(
                    f"its array for {key} has {array.size:,} elements, "
                    f"the net {graph.parameters[key].size:,}",
                    place=str(path),
                )
        load_weights(self.job.phases, self.nets, _learned_net(path, state.learned_net))
        with torch.no_grad():
            for (name, key), array in zip(rows, state.history, strict=True):
                if key in self.updater.state:
                    kept = store[key].as_source(self.updater.state[key][name])
                    kept.copy_(torch.from_numpy(np.array(array)).reshape(kept.shape))
        self.updater.iteration = state.iteration
        if "current_step" in self.updater.policy.state():
            self.updater.policy.restore({"current_step": state.current_step})


def _learned_net(path: Path, name: str) -> Path:
    """Return the weights that go with a state: where it says, or beside it."""
    stem, _, rest = path.name.partition(".solverstate")
    beside = path.with_name(f"{stem}.caffemodel{rest}")
    places = (Path(name), path.parent / Path(name).name, beside)
    found = next((file for file in places if file.is_file()), None)
    if found is None:
        raise ReadError(f"goes with the weights {name!r}, which are not there", place=str(path))
    return found


class Keeper:
    """Writes checkpoints on the engine's output lane, one after another.

    Args:
        running: What to write.
        engine: Where.
        keep: So many of Netweave's own checkpoints are kept.
    """

    def __init__(self, running: Running, engine: Engine, *, keep: int) -> None:
        self._running = running
        self._engine = engine
        self._keep = keep
        self._files = Variable("checkpoint files")

    def save(self, state: Mapping[str, Any]) -> tuple[str, ...]:
        """Begin to write everything as it is now; return the names of the files.

        Raises:
            RunError: The checkpoint before could not be written.
        """
        self.wait()
        job, iteration = self._running.job, self._running.updater.iteration
        prefix = job.checkpoints.prefix
        path = checkpoint_path(prefix, iteration)
        checkpoint = self._running.capture(state)
        foreign = {
            file: content
            for suffix in job.checkpoints.formats
            for file, content in self._foreign(suffix, Path(f"{prefix}_iter_{iteration}"), checkpoint)
        }
        self._engine.push(
            functools.partial(_write, path, checkpoint, foreign, prefix, self._keep),
            writes=[self._files],
            lane="output",
            name=f"checkpoint {iteration}",
        )
        return (str(path), *map(str, foreign))

    def wait(self) -> None:
        """Wait for what is being written.

        Raises:
            RunError: It could not be.
        """
        self._engine.wait_for(self._files)

    def _foreign(self, suffix: str, stem: Path, checkpoint: Checkpoint) -> list[tuple[Path, Any]]:
        """Return what is written for other programs: names of files, and functions that give their bytes."""
        graph = self._running.job.phases["train"].graph
        arrays = dict(nested(checkpoint.arrays, "param"))
        if suffix == "params":
            prefix, iteration = self._running.job.checkpoints.prefix, self._running.updater.iteration
            epoch = Path(f"{prefix}-{iteration:04d}.params")
            return [(epoch, functools.partial(encode_params, graph, complete_arrays(graph) | arrays))]
        if suffix not in FOREIGN:
            raise UsageError(
                f"no format {suffix!r} to write weights in; there are: params, {', '.join(FOREIGN)}"
            )
        encode_net, encode_state, tail = FOREIGN[suffix]
        gradients = self._running.gradients() if self._running.job.checkpoints.gradients else None
        weights = stem.with_name(f"{stem.name}.{suffix}")
        solver = self._running.caffe_state(str(weights))
        return [
            (weights, functools.partial(encode_net, graph, arrays, gradients)),
            (stem.with_name(f"{stem.name}.{tail}"), functools.partial(encode_state, solver)),
        ]


FOREIGN = {
    "caffemodel": (snapshot.encode_net, snapshot.encode_state, "solverstate"),
    "caffemodel.h5": (snapshot.encode_net_hdf5, snapshot.encode_state_hdf5, "solverstate.h5"),
}
"""Formats that weights are written in: how, and how the solver's state beside them, which is named so."""


def _write(path: Path, checkpoint: Checkpoint, foreign: Mapping[Path, Any], prefix: str, keep: int) -> None:
    for file, content in foreign.items():
        write_whole(file, content())
    write_checkpoint(path, checkpoint)
    with contextlib.suppress(OSError):
        prune(prefix, keep)
