"""From a ``job.conf`` to a Job: ``updater.cc``, ``worker.cc``, ``driver.cc``.

Of a net with an RBM the phase ``train`` is the way up and ``down`` the way down, with tied parameters.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from netweave.errors import ReadError, SourceError, UnsupportedError
from netweave.files import Source
from netweave.formats.singa.data_layers import data_sources
from netweave.formats.singa.files import CHECKPOINT, HEAD_BYTES, find_kind, parse_job
from netweave.formats.singa.net import Net, build, build_downwards
from netweave.formats.singa.phases import PHASES
from netweave.formats.singa.unroll import kind_of
from netweave.job import Checkpoints, Cluster, Job, Phase, Policy, Schedule, Solver

if TYPE_CHECKING:
    from collections.abc import Mapping
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

ALGORITHMS = {"kBP": "bp", "kBPTT": "bptt", "kCD": "cd"}

_CLUSTER = {"nworker_groups", "nworkers_per_group", "nserver_groups", "nservers_per_group"}


def is_job(path: Path) -> bool:
    """Whether a file is a ``job.conf``, or another text of SINGA's, by its first bytes."""
    with path.open("rb") as file:
        return find_kind(file.read(HEAD_BYTES)) not in {None, CHECKPOINT}


def read_job(path: Path, *, input_shapes: Mapping[str, tuple[int, ...]] | None = None) -> Job:
    """Read how to train: the nets of all phases, and how parameters change.

    Args:
        path: The ``job.conf``.
        input_shapes: Sizes of inputs by name, where the file does not say them.

    Raises:
        SourceError: The file cannot be read, holds something unknown, or says no training.
    """
    message, place = parse_job(path), str(path)
    if "updater" not in message:
        raise ReadError("has no 'updater', so it cannot be trained; use it with inspect or run", place=place)
    algorithm = message["train_one_batch"]["alg"]
    if algorithm not in ALGORITHMS:
        own = message["train_one_batch"]["user_alg"] or algorithm
        raise UnsupportedError(
            f"the algorithm {own!r} is user-defined, expected one of {', '.join(ALGORITHMS)}",
            place=_at(path, message, "train_one_batch"),
        )
    settings = message["train_one_batch"]["cd_conf"]
    phases = _phases(message, path, input_shapes or {})
    return Job(
        name=message["name"] or path.stem,
        phases=phases,
        solver=_solver(message, path),
        schedule=_schedule(message),
        checkpoints=_checkpoints(message),
        algorithm=ALGORITHMS[algorithm],
        algorithm_settings={"cd_k": settings["cd_k"]} if algorithm == "kCD" else {},
        cluster=_cluster(message),
        files=(place,),
        notes=tuple(_notes(message)),
    )


def _phases(message: Message, path: Path, input_shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Phase]:
    def read(phase: str) -> tuple[Source, Net]:
        source = Source(path, phase=phase, input_shapes=input_shapes)
        return source, build(message, source, None)

    source, net = read("TRAIN")
    found = {"train": _phase(net, training=True)}
    if net.machines:
        found["down"] = Phase(build_downwards(message, source, None, net))
    for phase, name in (("VALIDATE", "validate"), ("TEST", "test")):
        if message[f"{name}_freq"] > 0:
            try:
                _, net = read(phase)
            except SourceError as error:
                raise type(error)(f"{error.message} (phase {PHASES[phase]})", place=error.place) from error
            found[name] = _phase(net, training=False, num_batches=message[f"{name}_steps"])
    return found


def _phase(net: Net, *, training: bool, num_batches: int | None = None) -> Phase:
    return Phase(net.graph, data_sources(net.feeds, training=training), net.losses, num_batches)


def _solver(message: Message, path: Path) -> Solver:
    updater = message["updater"]
    if updater["type"] not in UPDATERS:
        name = updater["user_type"] or updater["type"]
        raise UnsupportedError(
            f"the updater {name!r} is user-defined, expected one of {', '.join(UPDATERS)}",
            place=_at(path, updater, "type"),
        )
    kind, fields, own = UPDATERS[updater["type"]]
    settings = {field: updater[field] for field in fields}
    if own:
        settings |= _all(updater[own])
    return Solver(kind, _policy(updater["learning_rate"], path), settings)


def _policy(rate: Message, path: Path) -> Policy:
    if rate["type"] not in POLICIES:
        name = rate["user_type"] or rate["type"]
        raise UnsupportedError(
            f"the change of the learning rate {name!r} is user-defined, expected one of "
            f"{', '.join(POLICIES)}",
            place=_at(path, rate, "type"),
        )
    kind, field = POLICIES[rate["type"]]
    settings = _all(rate[field]) if field else {}
    if rate["type"] == "kFixedStep" and len(settings["step"]) != len(settings["step_lr"]):
        raise ReadError(
            f"has {len(settings['step'])} 'step' for {len(settings['step_lr'])} 'step_lr', expected "
            "one for each",
            place=_at(path, rate, field),
        )
    return Policy(kind, rate["base_lr"], settings)


def _schedule(message: Message) -> Schedule:
    names = {"disp": "display", "test": "test", "validate": "validate", "checkpoint": "checkpoint"}
    return Schedule(
        max_iterations=message["train_steps"],
        display_interval=message["disp_freq"],
        test_interval=message["test_freq"],
        test_at_start=message["test_after"] == 0,
        display_at_end=False,
        validate_interval=message["validate_freq"],
        first={name: message[f"{old}_after"] for old, name in names.items() if message[f"{old}_after"]},
    )


def _checkpoints(message: Message) -> Checkpoints:
    folder = PurePosixPath(message["cluster"]["workspace"]) / "checkpoint"
    return Checkpoints(
        prefix=str(folder / "step"),
        interval=message["checkpoint_freq"],
        weights=tuple(message["checkpoint_path"]),
    )


def _cluster(message: Message) -> Cluster:
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


def _notes(message: Message) -> list[str]:
    """Say what SINGA does and a graph's gradients do not."""
    notes = []
    layers = message["neuralnet"]["layer"]
    shared = [spec["name"] for layer in layers for spec in layer["param"] if spec["share_from"]]
    if shared:
        notes.append(
            f"SINGA divides the gradient of a shared parameter by the number of layers that share it "
            f"({', '.join(dict.fromkeys(shared))}); here it is their sum"
        )
    if any(kind_of(layer) == "kGRU" for layer in layers):
        notes.append("SINGA adds the update gate to the gradient of a GRU's state; here it is multiplied")
    return notes


def _all(message: Message) -> dict[str, Any]:
    """Return all fields of a message, set or not."""
    return {name: message[name] for name in message.type.fields}


def _at(path: Path, message: Message, field: str) -> str:
    line = message.line_of(field)
    return str(path) if line is None else f"{path}:{line}"
