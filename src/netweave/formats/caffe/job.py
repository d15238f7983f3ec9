"""From Caffe's ``solver.prototxt`` of every age to a Job.

Rules: ``solver.cpp`` (InitTrainNet, InitTestNets), ``upgrade_proto.cpp`` (UpgradeSolverType), and the solvers
themselves for what they read. Names of files are relative to one folder, as in Caffe to the working folder;
where the net is not there, to the nearest folder above the solver in which it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from netweave.errors import ReadError, UnsupportedError, UsageError
from netweave.files.protobuf import Message
from netweave.files.prototext import parse_text, unknown_fields
from netweave.files.source import is_file, read_bytes
from netweave.formats.caffe.file_types import HEAD_BYTES, find_kind
from netweave.formats.caffe.phases import NetFile, Reading, Sizes
from netweave.formats.caffe.reader import LENIENT, parse_net
from netweave.formats.caffe.schema import caffe_schema, upgrade
from netweave.job import Checkpoints, Job, JobOptions, Phase, Policy, Probe, Schedule, Solver

COMMON = ("momentum", "weight_decay", "regularization_type", "clip_gradients")

KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "SGD": ("caffe.sgd", COMMON),
    "Nesterov": ("caffe.nesterov", COMMON),
    "AdaGrad": ("caffe.adagrad", (*COMMON, "delta")),
    "RMSProp": ("caffe.rmsprop", (*COMMON, "delta", "rms_decay")),
    "AdaDelta": ("caffe.adadelta", (*COMMON, "delta")),
    "Adam": ("caffe.adam", (*COMMON, "delta", "momentum2")),
}
"""The types of solvers: the kind in a Job, and the fields that the solver reads."""

POLICIES: dict[str, tuple[str, ...]] = {
    "fixed": (),
    "step": ("gamma", "stepsize"),
    "exp": ("gamma",),
    "inv": ("gamma", "power"),
    "multistep": ("gamma", "stepvalue"),
    "poly": ("power", "max_iter"),
    "sigmoid": ("gamma", "stepsize"),
    "plateau": ("gamma", "plateau_winsize"),
}
"""The learning-rate policies, with the fields that each of them reads."""

UNREAD = ("disabled_update", "warmup_iter", "local_lr_auto", "stagelr", "stageiter")
"""What other branches do to rates and parameters, and Netweave does not."""


def read_solver(
    path: Path,
    *,
    probe: Probe | None = None,
    input_shapes: Sizes | None = None,
    data: Mapping[str, str] | None = None,
    stages: tuple[str, ...] = (),
    level: int = 0,
    kind_of: Callable[[str], str] | None = None,
) -> Job:
    """Read a solver with its nets.

    Args:
        path: The solver.
        probe: Gives the sizes of what a source of data holds, by name; batch size first. Without it the
            nets must say them.
        input_shapes: Sizes of inputs by name, over what is said or probed.
        data: By phase, where its records are, instead of what its net names; under ``""`` those of all
            phases, under ``mean`` a mean file.
        stages: Stages that the training net is in, besides those of the solver.
        level: Level that the training net is at, if not 0.
        kind_of: Tells what kind of records a path holds; without it the kind that the net names.

    Raises:
        SourceError: The solver or one of its nets cannot be read, or they do not fit together.
        UsageError: ``data`` names a phase that there is not, or one without such records.
    """
    solver = parse_solver(path)
    root = find_root(path, solver["net"] or solver["train_net"])
    paths = dict(data or {})
    mean = paths.pop("mean", "")
    reading = Reading(root, probe, dict(input_shapes or {}), stages, level, kind_of, mean)
    kind, settings = _rule(solver, path)
    policy = solver["lr_policy"]
    rate = Policy(f"caffe.{policy}", solver["base_lr"], {field: solver[field] for field in POLICIES[policy]})
    folder = "" if root == Path() else f" (below {root})"
    return Job(
        name=path.stem,
        phases=_Nets(path, solver, reading).phases(paths),
        solver=Solver(kind, rate, settings, accumulate=max(1, solver["iter_size"])),
        schedule=_schedule(solver),
        checkpoints=_checkpoints(solver, root, path),
        seed=solver["random_seed"] if solver["random_seed"] >= 0 else None,
        files=(str(path),),
        notes=(f"names of files are looked for beside the solver{folder}",) if folder else (),
    )


def is_solver(path: Path) -> bool:
    """Return whether a file is a solver, by its first bytes."""
    with path.open("rb") as file:
        kind = find_kind(file.read(HEAD_BYTES))
    return kind is not None and kind.message == "SolverParameter"


def parse_solver(path: Path) -> Message:
    """Return the message of a solver.

    Raises:
        ReadError: The file cannot be read, or is no solver.
        UnsupportedError: It asks for something that is not read.
    """
    content = read_bytes(path)
    place = str(path)
    kind = find_kind(content[:HEAD_BYTES])
    if kind is not None and kind.message != "SolverParameter":
        described = kind.message or "HDF5 file"
        raise ReadError(f"is a {described}, expected a solver; give the solver.prototxt", place=place)
    lenient = (*LENIENT, "SolverParameter")
    solver = parse_text(content, caffe_schema(), "SolverParameter", place=place, lenient=lenient)
    _check_policy(solver, path)  # first, since the fields of an unknown one are unknown too
    if solver.unknown:
        raise unknown_fields(solver.unknown)
    unread = [name for name in UNREAD if name in solver]
    if unread:
        text = f"{', '.join(unread)} {'is' if len(unread) == 1 else 'are'} not supported; remove "
        raise UnsupportedError(
            text + ("it" if len(unread) == 1 else "them"), place=_at(path, solver, unread[0])
        )
    return solver


def find_root(path: Path, name: str) -> Path:
    """Return the folder that names in a solver are relative to: the working one, or one above the solver."""
    if not name or Path(name).is_absolute() or is_file(Path(name)):
        return Path()
    return next((folder for folder in path.absolute().parents if is_file(folder / name)), Path())


@dataclass(frozen=True, slots=True)
class _Nets:
    """The nets that one solver names."""

    path: Path
    solver: Message
    reading: Reading

    def phases(self, data: Mapping[str, str]) -> dict[str, Phase]:
        """Return the phases by name: training, then the tests in order.

        Args:
            data: By phase, where its records are, instead of what its net names.
        """
        nets = {"train": self._train_net()}
        for index, net in enumerate(self._test_nets()):
            nets[f"test-{index}" if index else "test"] = net
        unknown = [name for name in data if name and name not in nets]
        if unknown:
            raise UsageError(
                f"{self.path}: data is given for phase {unknown[0]!r}; expected one of "
                f"{', '.join(nets)}, mean"
            )
        if data.get("") in nets:
            raise UsageError(
                f"{self.path}: data is given for {data['']!r} without a path; say {data['']}=PATH"
            )
        data = {**dict.fromkeys(nets, data[""]), **data} if "" in data else data
        # the caffe tool writes its flags -stage and -level into the solver's train_state, and nowhere else
        tests = replace(self.reading, stages=(), level=0)
        return {
            name: (self.reading if name == "train" else tests).phase(net, data.get(name))
            for name, net in nets.items()
        }

    def _train_net(self) -> NetFile:
        solver = self.solver
        given = [name for name in ("net", "net_param", "train_net", "train_net_param") if name in solver]
        if len(given) != 1:
            names = " and ".join(given) or "none"
            raise ReadError(
                f"expected one training net (net, net_param, train_net or train_net_param), found {names}",
                place=str(self.path),
            )
        return self._in_state(given[0], solver[given[0]], "TRAIN", solver["train_state"])

    def _test_nets(self) -> list[NetFile]:
        solver, place = self.solver, str(self.path)
        counts, states = solver["test_iter"], solver["test_state"]
        named = [("test_net_param", net) for net in solver["test_net_param"]]
        named += [("test_net", name) for name in solver["test_net"]]
        own = next((name for name in ("net_param", "net") if name in solver), None)
        if own:
            named += [(own, solver[own])] * max(0, len(counts) - len(named))
        if len(named) != len(counts):
            raise ReadError(
                f"has {len(counts)} test_iter for {len(named)} test nets, expected one for each", place=place
            )
        if states and len(states) != len(named):
            raise ReadError(
                f"has {len(states)} test_state for {len(named)} test nets, expected none or one for each",
                place=place,
            )
        if named and solver["test_interval"] <= 0:
            raise ReadError("has test nets and no test_interval, expected one above 0", place=place)
        states = states or [solver.empty("test_state")] * len(named)
        return [
            self._in_state(field, given, "TEST", state, count)
            for (field, given), state, count in zip(named, states, counts, strict=True)
        ]

    def _in_state(
        self, field: str, given: str | Message, phase: str, state: Message, count: int | None = None
    ) -> NetFile:
        net, file = self._net(field, given)
        return NetFile(net, file, state.get("phase", phase), tuple(state["stage"]), state["level"], count)

    def _net(self, field: str, given: str | Message) -> tuple[Message, Path]:
        """Return a net and the file that it stands in."""
        if not isinstance(given, str):
            upgrade(given, place=str(self.path))
            return given, self.path
        file = self.reading.root / given
        if not is_file(file):
            raise ReadError(
                f"names a net that does not exist: {given!r}, neither in the working folder nor in one above "
                "the solver",
                place=_at(self.path, self.solver, field),
            )
        return parse_net(file), file


def _rule(solver: Message, path: Path) -> tuple[str, dict[str, Any]]:
    """Return the kind of the solver and its settings; ``solver_type`` is the older form."""
    name = solver["type"]
    if "solver_type" in solver:
        if "type" in solver:
            raise ReadError(
                "has both type and solver_type, expected one", place=_at(path, solver, "solver_type")
            )
        name = next((kind for kind in KINDS if kind.upper() == solver["solver_type"]), solver["solver_type"])
    if name not in KINDS:
        raise UnsupportedError(
            f"unknown solver type {name!r}, expected {', '.join(KINDS)}",
            place=_at(path, solver, "type" if "type" in solver else "solver_type"),
        )
    kind, fields = KINDS[name]
    return kind, {field: solver[field] for field in fields}


def _check_policy(solver: Message, path: Path) -> None:
    if solver["lr_policy"] not in POLICIES:
        raise UnsupportedError(
            f"unknown lr_policy {solver['lr_policy']!r}, expected {', '.join(POLICIES)}",
            place=_at(path, solver, "lr_policy"),
        )


def _schedule(solver: Message) -> Schedule:
    return Schedule(
        max_iterations=solver["max_iter"],
        display_interval=solver["display"],
        average_loss=max(1, solver["average_loss"]),
        test_interval=solver["test_interval"],
        test_at_start=solver["test_initialization"],
    )


def _checkpoints(solver: Message, root: Path, path: Path) -> Checkpoints:
    prefix = solver["snapshot_prefix"]
    weights = [part for text in solver["weights"] for part in text.split(",")]
    return Checkpoints(
        prefix=_prefix(root / prefix, path, folder=prefix.endswith("/"))
        if prefix
        else str(path.with_suffix("")),
        interval=solver["snapshot"],
        at_end=solver["snapshot_after_train"],
        formats=("caffemodel.h5" if solver["snapshot_format"] == "HDF5" else "caffemodel",),
        gradients=solver["snapshot_diff"],
        weights=tuple(str(root / part) for part in weights),
    )


def _prefix(prefix: Path, path: Path, *, folder: bool) -> str:
    """Return what names of snapshots start with; in a folder they are called after the solver."""
    return str(prefix / path.stem if folder or prefix.is_dir() else prefix)


def _at(path: Path, solver: Message, field: str) -> str:
    line = solver.line_of(field)
    return str(path) if line is None else f"{path}:{line}"


is_job = is_solver


def read_job(path: Path, options: JobOptions) -> Job:
    """Read a solver with its nets; see ``read_solver``."""
    return read_solver(
        path,
        probe=options.probe,
        input_shapes=options.input_shapes,
        data=options.data,
        stages=options.stages,
        level=options.level,
        kind_of=options.kind_of,
    )
