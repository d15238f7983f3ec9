"""The settings of a ``job.conf``: updater, learning rate, schedule, checkpoints and cluster.

Rules: ``updater.cc``, ``worker.cc`` (Run) and ``cluster.cc``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from netweave.errors import ReadError, UnsupportedError
from netweave.job import Checkpoints, Cluster, Policy, Schedule, Solver

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from netweave.files.protobuf import Message

COMMON = ("weight_decay", "clip_low", "clip_high")

UPDATERS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "kSGD": ("singa.sgd", ("momentum", *COMMON), ""),
    "kNesterov": ("singa.nesterov", ("momentum", *COMMON), ""),
    "kAdaGrad": ("singa.adagrad", COMMON, ""),
    "kRMSProp": ("singa.rmsprop", ("delta", *COMMON), "rmsprop_conf"),
    "kAdaDelta": ("singa.adadelta", ("delta", "weight_decay"), "adadelta_conf"),
    "kAdam": ("singa.adam", ("delta", "weight_decay"), "adam_conf"),
    "kAdamMax": ("singa.adammax", ("delta", "weight_decay"), "adammax_conf"),
}
"""The updaters: the kind in a Job, the fields that they read, and the field of their own settings."""

POLICIES: dict[str, tuple[str, str]] = {
    "kFixed": ("singa.fixed", ""),
    "kStep": ("singa.step", "step_conf"),
    "kFixedStep": ("singa.fixed_step", "fixedstep_conf"),
    "kLinear": ("singa.linear", "linear_conf"),
    "kExponential": ("singa.exponential", "exponential_conf"),
    "kInverse": ("singa.inverse", "inverse_conf"),
    "kInverseT": ("singa.inverse_t", "inverset_conf"),
}
"""How the learning rate changes: the kind in a Job, and the field of its settings."""

_CLUSTER = {"nworker_groups", "nworkers_per_group", "nserver_groups", "nservers_per_group"}

_WORKER = re.compile(r"(?P<step>.*)-worker\d+(\.bin)?$")
"""Name of a checkpoint; each worker of a group writes the parts of the parameters that it owns."""


def solver_of(message: Message, path: Path, shares: Mapping[str, int]) -> Solver:
    """Return how gradients change parameters.

    Args:
        message: The whole file.
        path: Its name, for errors.
        shares: How many layers hold a parameter, by key, where it is more than one.
    """
    updater = message["updater"]
    if updater["type"] not in UPDATERS:
        name = updater["user_type"] or updater["type"]
        raise UnsupportedError(
            f"the updater {name!r} is user-defined, expected one of {', '.join(UPDATERS)}",
            place=place_of(path, updater, "type"),
        )
    kind, fields, own = UPDATERS[updater["type"]]
    settings = {field: updater[field] for field in fields}
    if own:
        settings |= _all(updater[own])
    # the server divides by the number of layers that sent it a gradient (server.cc, HandleUpdate)
    averages = {key: 1.0 / count for key, count in shares.items()}
    return Solver(kind, _policy(updater["learning_rate"], path), settings, gradient_mult=averages)


def _policy(rate: Message, path: Path) -> Policy:
    if rate["type"] not in POLICIES:
        name = rate["user_type"] or rate["type"]
        raise UnsupportedError(
            f"the change of the learning rate {name!r} is user-defined, expected one of "
            f"{', '.join(POLICIES)}",
            place=place_of(path, rate, "type"),
        )
    kind, field = POLICIES[rate["type"]]
    settings = _all(rate[field]) if field else {}
    if rate["type"] == "kFixedStep" and len(settings["step"]) != len(settings["step_lr"]):
        raise ReadError(
            f"has {len(settings['step'])} 'step' for {len(settings['step_lr'])} 'step_lr', expected "
            "one for each",
            place=place_of(path, rate, field),
        )
    return Policy(kind, rate["base_lr"], settings)


def schedule_of(message: Message) -> Schedule:
    """Return what happens when: ``Worker::Run``."""
    names = {"disp": "display", "test": "test", "validate": "validate", "checkpoint": "checkpoint"}
    return Schedule(
        max_iterations=message["train_steps"],
        display_interval=message["disp_freq"],
        test_interval=message["test_freq"],
        test_at_start=message["test_after"] == 0,
        test_at_end=False,
        display_at_end=False,
        display_means=True,
        display_norms=message["debug"],
        validate_interval=message["validate_freq"],
        first={name: message[f"{old}_after"] for old, name in names.items() if message[f"{old}_after"]},
    )


def checkpoints_of(message: Message, root: Path) -> Checkpoints:
    """Return what is kept, and what the run starts from.

    Args:
        message: The whole file.
        root: The folder that names in it are relative to.
    """
    folder = root / message["cluster"]["workspace"] / "checkpoint"
    return Checkpoints(
        prefix=str(folder / "step"),
        interval=message["checkpoint_freq"],
        at_start=True,  # worker.h, CheckpointNow: step 0 is a multiple of any checkpoint_freq
        formats=("worker0",),
        weights=_by_step([str(root / name) for name in message["checkpoint_path"]]),
    )


def _by_step(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of checkpoints, those of the workers of one step as one, with commas between."""
    steps: dict[str, list[str]] = {}
    for name in names:
        match = _WORKER.fullmatch(name)
        steps.setdefault(match["step"] if match else name, []).append(name)
    return tuple(",".join(files) for files in steps.values())


def cluster_of(message: Message) -> Cluster:
    """Return the machinery that the file asks for."""
    cluster = message["cluster"]
    settings: dict[str, Any] = {name: value for name, value in _all(cluster).items() if name not in _CLUSTER}
    settings |= {name: cluster[name] for name in sorted(_CLUSTER)}
    if message["gpu"]:
        settings["gpu"] = list(message["gpu"])
    return Cluster(
        num_workers=cluster["nworker_groups"] * cluster["nworkers_per_group"],
        num_servers=cluster["nserver_groups"] * cluster["nservers_per_group"],
        settings=settings,
    )


def _all(message: Message) -> dict[str, Any]:
    """Return all fields of a message, set or not."""
    return {name: message[name] for name in message.type.fields}


def place_of(path: Path, message: Message, field: str) -> str:
    """Return where a field of a message stands."""
    line = message.line_of(field)
    return str(path) if line is None else f"{path}:{line}"
