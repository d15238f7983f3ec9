"""States of optimizers, in the order in which Keras 3 writes them to a ``.keras`` file.

Keras numbers the variables of an optimizer: the count of updates, the learning rate unless there is a
schedule, then arrays like those that are trained. ``GROUPS`` says in which order: one group after another, in
a group one array of the net after another. Behind them Nadam has the product of its factors.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.graph import Graph
from netweave.job import Solver
from netweave.keras.optimizers import LearningRateSchedule, Optimizer

if TYPE_CHECKING:
    from netweave.keras.layer import Network
    from netweave.keras.operation import Variable
    from netweave.runtime.backends.torch import TorchNet

PLACE = "optimizer/vars"
"""The group of a file that holds the variables."""

Groups = tuple[tuple[str, ...], ...]


def _adam(settings: Mapping[str, Any]) -> Groups:
    largest: Groups = (("velocity_hat",),) if settings["amsgrad"] else ()
    return (("momentum", "velocity"), *largest)


def _averages(settings: Mapping[str, Any]) -> Groups:
    return (("momentum", "velocity"),)


GROUPS: dict[str, Callable[[Mapping[str, Any]], Groups]] = {
    "SGD": lambda settings: (("momentum",),) if settings["momentum"] else (),
    "RMSprop": lambda settings: (
        ("velocity",),
        *((("momentum",),) if settings["momentum"] else ()),
        *((("average_gradient",),) if settings["centered"] else ()),
    ),
    "Adam": _adam,
    "AdamW": _adam,
    "Nadam": _averages,
    "Lamb": _averages,
    "Adagrad": lambda settings: (("accumulator",),),
    "Adadelta": lambda settings: (("accumulated_grad", "accumulated_delta_var"),),
    "Adamax": lambda settings: (("momentum", "norm"),),
    "Ftrl": lambda settings: (("accumulator", "linear"),),
    "Lion": lambda settings: (("momentum",),),
}
"""Names of the rule's arrays. Adafactor is not among them: its arrays are not like those that are trained."""


def optimizer_arrays(
    model: Network, optimizer: Optimizer, state: Mapping[str, Any]
) -> list[np.ndarray] | None:
    """Return what a file holds of an optimizer; None if Keras' order is not known.

    Args:
        model: The model whose arrays are trained.
        optimizer: The optimizer.
        state: That of the updater, as ``Updater.state_dict`` returns it.
    """
    kind = type(optimizer).__name__
    if kind not in GROUPS:
        return None
    head = [np.array(state["iteration"], np.int64), *_rates(optimizer)]
    rows = _rows(model, GROUPS[kind](optimizer.settings))
    tensors = [variable.stored.as_source(state["state"][key][name]) for key, variable, name in rows]
    arrays = [np.array(tensor.detach().cpu().numpy()) for tensor in tensors]
    return [*head, *arrays, *(np.array(state["memory"][name], np.float32) for name in _memory(kind))]


def updater_state(
    model: Network,
    optimizer: Optimizer,
    arrays: Sequence[np.ndarray],
    *,
    net: TorchNet,
    graph: Graph,
    solver: Solver,
) -> dict[str, Any] | None:
    """Return the state of an updater from what a file holds; None, and a warning, if it does not fit.

    Args:
        model: The model whose arrays are trained.
        optimizer: The optimizer.
        arrays: What the file holds, in its order.
        net: The net that is trained.
        graph: Its Graph.
        solver: How gradients change parameters.
    """
    from netweave.training.loading import trained
    from netweave.training.optim import Updater

    kind = type(optimizer).__name__
    before = 1 + len(_rates(optimizer))
    if len(arrays) <= before and not arrays[0].any():
        return None  # saved before the first update
    rows = list(_rows(model, GROUPS[kind](optimizer.settings))) if kind in GROUPS else []
    names = _memory(kind)
    shapes = [*[()] * before, *(variable.shape for _, variable, _ in rows), *[()] * len(names)]
    if [array.shape for array in arrays] != shapes:
        warnings.warn(
            f"the file's state of the optimizer {kind} is left out, and it begins anew: its {len(arrays)} "
            f"arrays do not have the sizes of the {len(shapes)} that this model's optimizer keeps",
            stacklevel=2,
        )
        return None
    updater = Updater(solver, trained(graph, net, solver.gradient_mult))
    for (key, variable, name), array in zip(rows, arrays[before : len(arrays) - len(names)], strict=True):
        tensor = variable.stored.as_source(updater.state[key][name])
        tensor.copy_(tensor.new_tensor(array))
    memory = {
        name: float(array) for name, array in zip(names, arrays[len(arrays) - len(names) :], strict=True)
    }
    return {**updater.state_dict(), "iteration": int(arrays[0]), "memory": memory}


def _memory(kind: str) -> tuple[str, ...]:
    """Return the names of the numbers that an optimizer has behind its arrays."""
    return ("u_product",) if kind == "Nadam" else ()


def _rates(optimizer: Optimizer) -> list[np.ndarray]:
    rate = optimizer.learning_rate
    return [] if isinstance(rate, LearningRateSchedule) else [np.array(rate, np.float32)]


def _rows(model: Network, groups: Groups) -> Iterator[tuple[str, Variable, str]]:
    """Yield the key of each array, itself, and the rule's name for what is kept, in Keras' order."""
    keys = {id(variable): key for key, (_, variable) in model.variables_by_key().items()}
    for group in groups:
        for variable in model.trainable_weights:
            for name in group:
                yield keys[id(variable)], variable, name
