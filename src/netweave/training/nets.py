"""The nets of a Job on torch: one for each phase, all with the same arrays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from netweave.errors import ShapeError, UsageError
from netweave.files.checksums import require_as_written
from netweave.formats.table import find_weights_reader
from netweave.graph import known_shape, unread_arrays
from netweave.graph.wording import names_text
from netweave.runtime.backends.torch import ParameterStore, TorchNet
from netweave.training.checkpoint_file import SUFFIX, nested, parameters_in, read_checkpoint
from netweave.training.optim import Trained, first_values

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from netweave.graph import Graph
    from netweave.job import Phase

NAMED = 12
"""So many names without a counterpart are told: about the layers of a small net."""


def make_nets(
    phases: Mapping[str, Phase],
    *,
    weights: Sequence[str | Path] = (),
    taps: Sequence[str] = (),
    train_taps: Sequence[str] = (),
    initializer: Mapping[str, Any] | None = None,
    seed: int,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, TorchNet]:
    """Return the net of each phase, with first values or those of weights.

    Args:
        phases: The phases by name.
        weights: Files whose arrays replace the first values, in order.
        taps: Names of values to give besides outputs and losses.
        train_taps: Names of values that the training net gives besides those.
        initializer: The Job's, for weights of MXNet's nets.
        seed: Of what is drawn.
        device: Where to compute.
        dtype: Type of the numbers.
        tell: Called with a sentence for what of the weights and of the nets found no counterpart.

    Raises:
        UsageError: A filler is unknown or cannot fill its parameter.
        SourceError: A file of weights cannot be read, or does not fit; or phases have an array in common that
            is of other sizes in each.
        RunError: An operator has no lowering.
    """
    _require_same_shapes(phases)
    store = ParameterStore()
    nets = {
        name: TorchNet(
            phase.graph,
            taps=[*phase.losses, *taps, *(train_taps if name == "train" else ())],
            store=store,
        )
        for name, phase in phases.items()
    }
    for phase in phases.values():
        for key, array in unread_arrays(phase.graph).items():
            store.add_constant(phase.graph.parameters[key], array)
    # files first: what they hold needs no rule for its first values, as in SINGA's stacks of machines
    known: set[str] = set()
    for file in map(Path, weights):
        known |= load_weights(phases, nets, file)
        if unused := _unused(file, phases):
            tell(f"{file}: ignoring {names_text(unused, NAMED)}, which the net does not have")
    if weights and (without := _without_values(phases, known)):
        files = " and ".join(map(str, weights))
        tell(f"{files}: no values for {names_text(without, NAMED)}, which the run starts from fresh ones")
    for name, phase in phases.items():
        for key, parameter in phase.graph.parameters.items():
            if key not in known and not parameter.loaded:
                values = first_values(parameter, source=phase.graph.format, seed=seed, default=initializer)
                nets[name].params[key] = torch.from_numpy(values)
        known |= phase.graph.parameters.keys()
    for net in nets.values():
        net.to(device).to(dtype)
    return nets


def load_weights(phases: Mapping[str, Phase], nets: Mapping[str, TorchNet], file: Path) -> set[str]:
    """Replace the arrays that a file of weights has, and return their keys.

    Args:
        phases: The phases by name.
        nets: The net of each phase.
        file: A file of the nets' own format, or a checkpoint of Netweave's.

    Raises:
        SourceError: The file cannot be read, is not as a run has written it, or does not fit.
        UsageError: It has none of the arrays.
    """
    if file.suffix != SUFFIX:  # a checkpoint holds its own checksum
        require_as_written(file)
    loaded: set[str] = set()
    for name, net in nets.items():
        graph = phases[name].graph
        found = parameters_in(file, graph) if file.suffix == SUFFIX else _weights_for(file, graph)
        loaded |= found.keys()
        for key, array in found.items():
            net.params[key] = torch.from_numpy(np.array(array))
    if not loaded:
        names = " and ".join(dict.fromkeys(phase.graph.name for phase in phases.values()))
        raise UsageError(f"{file}: contains no weights for any layer of {names}")
    return loaded


def _weights_for(file: Path, graph: Graph) -> dict[str, np.ndarray]:
    row = find_weights_reader(graph.format)
    if row is None:
        raise UsageError(f"{file}: a net of {graph.format} can begin from a {SUFFIX} only")
    found: dict[str, np.ndarray] = row.load_training().weights_for(file, graph)
    return found


def _unused(file: Path, phases: Mapping[str, Phase]) -> list[str]:
    """Return the names in a file of weights that stand for no parameter of any phase."""
    keys = {key for phase in phases.values() for key in phase.graph.parameters}
    if file.suffix == SUFFIX:
        return [name for name, _ in nested(read_checkpoint(file).arrays, "param") if name not in keys]
    row = find_weights_reader(next(iter(phases.values())).graph.format)
    assert row is not None  # the file has been read by it
    unused: list[str] = row.load_training().unused_in(file, keys)
    return unused


def _without_values(phases: Mapping[str, Phase], known: Container[str]) -> list[str]:
    """Return the parameters that neither weights nor the file of the net has values for."""
    parameters = {key: one for phase in phases.values() for key, one in phase.graph.parameters.items()}
    return [key for key, one in parameters.items() if key not in known and not one.loaded]


def trained(graph: Graph, net: TorchNet, gradient_mult: Mapping[str, float] | None = None) -> list[Trained]:
    """Return what a solver changes; no gradient is computed for what has a rate of 0.

    Args:
        graph: The training net.
        net: The net on torch.
        gradient_mult: Factors on gradients by key, where they are not 1.
    """
    factors = gradient_mult or {}
    found = []
    for key, parameter in graph.parameters.items():
        tensor = net.store[key].tensor
        if not parameter.trainable or not tensor.is_floating_point():
            continue
        tensor.requires_grad_(parameter.lr_mult != 0)
        factor = factors.get(key, 1.0)
        found.append(Trained(key, tensor, parameter.lr_mult, parameter.decay_mult, factor))
    return found


def moving_states(net: TorchNet) -> list[torch.Tensor]:
    """Return the arrays that forward passes change in training, in the order of their keys."""
    rows = [net.store[key] for key in sorted(net.store)]
    return [
        row.tensor
        for row in rows
        if not row.parameter.trainable and not row.constant and row.tensor.is_floating_point()
    ]


def layer_numbers(graph: Graph) -> dict[str, int]:
    """Return the number of each parameter's layer, by key: what stands before the last mark in its key."""
    layers: dict[str, int] = {}
    return {
        key: layers.setdefault(key.rpartition("/")[0] or key.rpartition("_")[0] or key, len(layers))
        for key in graph.parameters
    }


def _require_same_shapes(phases: Mapping[str, Phase]) -> None:
    """Refuse phases whose data give a common array other sizes."""
    first: dict[str, tuple[str, Sequence[int | None]]] = {}
    for name, phase in phases.items():
        for key, parameter in phase.graph.parameters.items():
            other, shape = first.setdefault(key, (name, parameter.shape))
            if tuple(shape) != tuple(parameter.shape):
                sizes = "; ".join(
                    f"{one}: " + ", ".join(f"{v.name} {known_shape(v)}" for v in phases[one].graph.inputs)
                    for one in (other, name)
                )
                raise ShapeError(
                    f"the phases share {key!r}, which is {tuple(shape)} for {other!r} and "
                    f"{tuple(parameter.shape)} for {name!r}; give their data the same sizes ({sizes})"
                )
