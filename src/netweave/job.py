"""The type Job: a training configuration that is independent of any framework.

A file may name URLs for its records. They are opened only if the user allows them: a ``solver.prototxt`` from
a stranger would otherwise make whoever trains with it send requests into their own network, with their own
credentials for stores (docs/decisions/0168). What the user names is opened without asking.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    from netweave.graph import Graph
    from netweave.graph.passes.partition import LayerCut

    Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class DataSource:
    """Records that become some of a graph's inputs.

    Attributes:
        kind: What holds the records: ``lmdb``, ``hdf5``, ``images``, ``arrays``, ...; a row of the table
            of sources in ``data``.
        outputs: Names of the graph inputs that are fed, one for each part of a record (image, label); a part
            that the graph does not take has a name that none of its inputs has.
        batch_size: Records in one batch, >= 1.
        settings: What the kind needs to be opened (``path``, ...); JSON values.
        order: In which order records are taken, where not as they are: ``shuffle``, ``skip``, ``last`` (see
            ``data.Order``).
        transforms: What happens to the first part of a record before it enters the batch, in order; each
            ``{"kind": ..., its settings}``, JSON values; rows of the table of transforms in ``data``.
        place: Where the source file says so, ``file:line`` or ``file: layer 'name'``; for messages.
    """

    kind: str
    outputs: tuple[str, ...]
    batch_size: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    order: Mapping[str, Any] = field(default_factory=dict)
    transforms: tuple[Mapping[str, Any], ...] = ()
    place: str = ""


PICTURES = frozenset({"folder", "images", "lmdb"})
"""Kinds of records that may stand for each other: pictures with labels."""


def with_path(
    sources: tuple[DataSource, ...], path: str, *, phase: str, place: str, kind: str = ""
) -> tuple[DataSource, ...]:
    """Return the sources of a phase with another path in the one that has any.

    Args:
        sources: The sources.
        path: The path.
        phase: Name of the phase, for messages.
        place: Name of the file, for messages.
        kind: What is there, which may be of another kind than what the file names; empty for the same.

    Raises:
        UsageError: There is not one source that reads records from a path.
    """
    named = [source for source in sources if "path" in source.settings]
    if len(named) != 1:
        raise UsageError(
            f"{place}: {len(named)} layers of phase {phase} read records from a path, expected one that can "
            f"read from {path} instead; change the names in the file"
        )
    return tuple(_moved(source, path, kind) if source is named[0] else source for source in sources)


def _moved(source: DataSource, path: str, kind: str) -> DataSource:
    """Return a source with another path; images of a list lie beside it if the file's folder is not there."""
    settings = {**source.settings, "path": path}
    if source.kind in {"given", "label_images"}:  # images with label images, of a list or a folder
        root = settings.get("root_folder", "")
        if not _exists(Path(root)) or not root:
            settings = {"path": path, "color": settings.get("color", "bgr")}
        return replace(source, kind="label_images", settings=settings)
    if source.kind == "annotated_lmdb":  # images with boxes, also of a folder or list
        return replace(
            source, kind="annotated_lmdb" if kind == "lmdb" else "annotated_images", settings=settings
        )
    if not {kind, source.kind} <= PICTURES:
        return replace(source, settings=settings)
    color = settings.get("color", "bgr")
    color = "bgr" if kind != "lmdb" and color == "native" else color
    root = settings.get("root_folder", "")
    if kind != "images":
        settings = {"path": path, "color": color}
    elif source.kind != "images" or (root and not _exists(Path(root))):
        settings = {"path": path, "color": color, "base": path.rpartition("/")[0]}
    return replace(source, kind=kind, settings=settings)


def with_mean(sources: tuple[DataSource, ...], path: str) -> tuple[DataSource, ...]:
    """Return sources that subtract the mean of another file, where they subtract that of a file."""
    made = []
    for source in sources:
        transforms = tuple(
            {**row, "path": path} if row["kind"] == "subtract" and "path" in row else row
            for row in source.transforms
        )
        settings = {**source.settings, **({"mean_file": path} if source.settings.get("mean_file") else {})}
        made.append(replace(source, transforms=transforms, settings=settings))
    return tuple(made)


def root_of_names(path: Path, names: Iterable[str]) -> Path:
    """Return the folder that names in a file are relative to: the working one, or one above the file.

    It is the nearest in which one of the names is; the working folder where there are none.
    """
    listed = list(names)
    folders = (Path(), *path.absolute().parents)
    return next((folder for folder in folders if any(_exists(folder / name) for name in listed)), Path())


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # the name is longer than the system takes
        return False


@dataclass(frozen=True, slots=True)
class Policy:
    """A learning rate policy.

    Attributes:
        kind: Whose rule and which, ``caffe.step`` or ``mxnet.factor``; a row of the table in ``optim``.
        base_rate: The rate that the rule starts from, > 0.
        settings: The rule's own numbers by the source's names.
    """

    kind: str
    base_rate: float
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Solver:
    """The update rule of a training, with its learning rate policy.

    Attributes:
        kind: Whose rule and which, ``caffe.nesterov`` or ``mxnet.adam``; a row of the table in ``optim``.
        policy: How the learning rate changes.
        settings: The rule's own numbers by the source's names (``momentum``, ``weight_decay``, ...).
        accumulate: Batches whose gradients are summed for one update (Caffe's ``iter_size``), >= 1.
        gradient_mult: Factors on the gradients of single parameters, by key, where they are not 1: SINGA
            averages the gradient of a parameter over the layers that share it.
    """

    kind: str
    policy: Policy
    settings: Mapping[str, Any] = field(default_factory=dict)
    accumulate: int = 1
    gradient_mult: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The schedule of a training; an iteration is one update, counted from 0.

    Attributes:
        max_iterations: Training ends before the iteration of this number.
        display_interval: Iterations between two lines of the log; 0 for none.
        average_loss: Iterations over which the shown loss is averaged, >= 1.
        test_interval: Iterations between two tests; 0 for none.
        test_at_start: Whether there is a test before the first iteration.
        test_at_end: Whether there is a test behind the last one, if the interval falls there.
        display_at_end: Whether the end of training shows the training net once more on a further batch, as
            Caffe does.
        display_means: Whether a display shows the means of the outputs over all iterations since the last
            one, as SINGA does, and not those of the last batch.
        display_norms: Whether a display also shows the mean absolute values of layers, parameters and their
            gradients (SINGA's ``debug``).
        validate_interval: Iterations between two passes over the phase ``validate``; 0 for none.
        first: Iteration from which on something is done, where it is not from the start: ``display``,
            ``test``, ``validate`` or ``checkpoint``.
    """

    max_iterations: int
    display_interval: int = 0
    average_loss: int = 1
    test_interval: int = 0
    test_at_start: bool = True
    test_at_end: bool = True
    display_at_end: bool = True
    display_means: bool = False
    display_norms: bool = False
    validate_interval: int = 0
    first: Mapping[str, int] = field(default_factory=dict)

    def is_due(self, event: str, iteration: int, interval: int | None = None) -> bool:
        """Return whether something is done at an iteration.

        Args:
            event: ``display``, ``test``, ``validate`` or ``checkpoint``.
            iteration: Updates done.
            interval: Iterations between two times, if not those of the schedule; 0 for never.

        >>> [n for n in range(20) if Schedule(99, test_interval=5, first={"test": 7}).is_due("test", n)]
        [7, 12, 17]
        """
        if interval is None:
            interval = getattr(self, f"{event}_interval")
        since = iteration - self.first.get(event, 0)
        return interval > 0 and since >= 0 and since % interval == 0


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The checkpoints that a run writes, and the one that it starts from.

    Attributes:
        prefix: Path that the names of the files start with.
        interval: Iterations between two checkpoints; 0 for none but the last.
        at_start: Whether one is made before the first update, where the interval asks for any (SINGA).
        at_end: Whether the end of the run makes one.
        formats: What is written besides Netweave's own checkpoint: ``caffemodel``, ``caffemodel.h5``,
            ``params``.
        gradients: Whether the last gradients are written too (Caffe's ``snapshot_diff``).
        weights: Files whose arrays replace the first values of parameters of the same name, in order.
    """

    prefix: str = ""
    interval: int = 0
    at_start: bool = False
    at_end: bool = True
    formats: tuple[str, ...] = ()
    gradients: bool = False
    weights: tuple[str, ...] = ()


PLACEMENTS = ("slices", "round-robin", "split", "boxes")
"""Rules by which servers hold parameters: equal bytes; TensorFlow's, MXNet's and SINGA's."""

OUTER_RULES = ("sum", "average", "nesterov", "elastic")
"""Rules by which server groups are synchronised: SINGA's, the mean, DiLoCo's, and elastic averaging."""

_LEAST = {
    "worker_groups": 1,
    "workers_per_group": 1,
    "server_groups": 1,
    "servers_per_group": 1,
    "sync_every": 1,
    "staleness": 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The workers and servers that train together; ``training.cluster`` places them.

    Attributes:
        worker_groups: Groups of workers; each computes gradients of batches of its own, without waiting for
            the others beyond ``staleness``.
        workers_per_group: Workers that share each batch of a group.
        server_groups: Groups of servers; each holds all parameters, and serves as many worker groups as the
            others.
        servers_per_group: Servers that share the parameters.
        separate: Whether servers have processes of their own (SINGA's ``server_worker_separate``).
        sync_every: Updates after which a server group is synchronised with the others (``sync_freq``).
        staleness: Updates by which a worker group may be ahead of the slowest one; None for any number.
        placement: The rule by which servers hold parameters, one of ``PLACEMENTS``.
        outer: The rule by which server groups are synchronised, one of ``OUTER_RULES``.
        outer_rate: Learning rate of ``nesterov``, 0.7 by default, or moving rate of ``elastic``, 0.9 divided
            by the server groups by default.
        outer_momentum: Momentum of ``nesterov``.
        layers: The layers that the workers of a group do not cut by batch.
        file: The file that says so; empty for a program.
        lines: The lines of the settings there, by attribute.

    Raises:
        UsageError: A number is out of its range, or the groups cannot be divided among server groups.
    """

    worker_groups: int = 1
    workers_per_group: int = 1
    server_groups: int = 1
    servers_per_group: int = 1
    separate: bool = False
    sync_every: int = 1
    staleness: int | None = None
    placement: str = "slices"
    outer: str = "sum"
    outer_rate: float | None = None
    outer_momentum: float = 0.9
    layers: tuple[LayerCut, ...] = ()
    file: str = ""
    lines: Mapping[str, int] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise self.error(name, f"{name} is {value}, expected {least} or more")
        for name, known in (("placement", PLACEMENTS), ("outer", OUTER_RULES)):
            if getattr(self, name) not in known:
                raise self.error(
                    name, f"{name} is {getattr(self, name)!r}, expected one of {', '.join(known)}"
                )
        if self.worker_groups % self.server_groups:
            raise self.error(
                "server_groups",
                f"{self.worker_groups} worker groups cannot be divided among {self.server_groups} server "
                "groups; take a number of server groups that divides that of worker groups",
            )
        rate = self.outer_rate
        if rate is not None and not (rate > 0 and (self.outer != "elastic" or rate < 1)):
            most = " and less than 1" if self.outer == "elastic" else ""
            raise self.error("outer_rate", f"outer_rate is {rate}, expected more than 0{most}")
        if not 0 <= self.outer_momentum < 1:
            raise self.error(
                "outer_momentum", f"outer_momentum is {self.outer_momentum}, expected 0 or more, less than 1"
            )
        for layer in self.layers:
            layer.check(self.workers_per_group)

    @property
    def cuts(self) -> tuple[LayerCut, ...]:
        """The layers that are cut by feature or by image, or live on one worker."""
        return tuple(one for one in self.layers if one.is_by_layer)

    def require_one_group(self) -> None:
        """Refuse to cut layers where there are several groups of workers, or servers of their own.

        Raises:
            UsageError: There are.
        """
        if self.num_processes != self.workers_per_group:
            what = f"layer {self.cuts[0].name!r} is cut" if self.cuts else "the net is a pipeline"
            raise self.error(
                "separate" if self.separate else "worker_groups",
                f"{what} across the workers of a group; that is supported for one group whose workers are "
                f"the servers, not for {self.roles_text}. Take one worker group, and no separate servers",
            )

    @property
    def num_workers(self) -> int:
        """Number of workers of all groups."""
        return self.worker_groups * self.workers_per_group

    @property
    def num_servers(self) -> int:
        """Number of servers of all groups."""
        return self.server_groups * self.servers_per_group

    @property
    def num_processes(self) -> int:
        """Number of processes: where servers are not separate, each stands beside a worker."""
        both = (self.num_workers, self.num_servers)
        return sum(both) if self.separate else max(both)

    @property
    def is_alone(self) -> bool:
        """True if one process is all of it, so that it says nothing of several devices."""
        return self.num_processes == 1

    @property
    def roles_text(self) -> str:
        """The workers and servers in words.

        >>> Cluster(workers_per_group=3).roles_text
        '3 workers and 1 server'
        """
        counts = {"worker": self.num_workers, "server": self.num_servers}
        return " and ".join(f"{count} {role}{'s' * (count > 1)}" for role, count in counts.items())

    def require_processes(self, found: int) -> None:
        """Refuse another number of processes than there are roles.

        Raises:
            UsageError: There are more or fewer; the message says how many it takes.
        """
        need = self.num_processes
        if need == found:
            return
        how = "with processes of their own" if self.separate else "each beside a worker where there is one"
        raise self.error(
            "worker_groups" if self.worker_groups > 1 else "workers_per_group",
            f"the cluster has {self.roles_text}, {how}: it needs {need} processes, found {found}; give "
            f"--devices cpu:{need}, or as many GPUs, or change the cluster",
        )

    def place_of(self, name: str) -> str:
        """Return where a setting stands, for messages."""
        line = self.lines.get(name)
        return f"{self.file}:{line}" if line and self.file else self.file or "cluster"

    def error(self, name: str, message: str) -> UsageError:
        """Return the error for a setting."""
        return UsageError(f"{self.place_of(name)}: {message}")

    def without_effect(self) -> Iterator[str]:
        """Yield a sentence for each setting that changes nothing here."""
        if self.server_groups == 1:
            what = "changes nothing: one server group has no other to be synchronised with"
            if self.sync_every > 1:
                yield f"'sync_every' {what}"
            if self.outer != "sum":
                yield f"'outer' {what}"
        elif self.outer != "nesterov" and "outer_momentum" in self.lines:
            yield f"'outer_momentum' changes nothing with the outer rule {self.outer!r}"
        if self.outer_rate is not None and self.outer not in {"nesterov", "elastic"}:
            yield f"'outer_rate' changes nothing with the outer rule {self.outer!r}"
        if self.staleness is not None and self.worker_groups == self.server_groups:
            yield "'staleness' changes nothing: no two worker groups have a server in common"
        if self.placement != "slices" and self.servers_per_group == 1:
            yield "'placement' changes nothing: the only server of a group holds all parameters"


VERSION = 1
"""Version of the JSON form."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One of the nets of a Job: training, a test, the upward half of a machine with two directions.

    Phases share parameters by key.

    Attributes:
        graph: The net as it is in this phase.
        data: Where its inputs come from; each input of the graph is fed by one of them.
        losses: Names of the values whose sums, so weighted, make the objective.
        num_batches: Batches in one pass of a test; None where the schedule says it.
        metric: What is measured over all batches of a test and is no mean over them: ``{"kind": ..., its
            settings}``, JSON values; a row of the table of metrics in ``training``.
    """

    graph: Graph
    data: tuple[DataSource, ...] = ()
    losses: Mapping[str, float] = field(default_factory=dict)
    num_batches: int | None = None
    metric: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Job:
    """A training job: nets, solver, schedule and checkpoints.

    Attributes:
        name: For people and file names.
        phases: The nets by name: ``train``; ``test``, ``test-1``, ... in the order of testing; ``validate``;
            of a machine with two directions also ``up`` and ``down``, which share its parameters.
        solver: How gradients change parameters.
        schedule: What happens when.
        checkpoints: What is kept, and what the run starts from.
        algorithm: ``bp`` (back-propagation), ``bptt`` (through time), ``cd`` (contrastive divergence).
        algorithm_settings: The algorithm's own numbers by the source's names (``cd_k``).
        seed: Seed of everything that is drawn; None for a fresh one in each run.
        cluster: The workers and servers that the source asks for; None if it does not speak of them.
        files: The files that the Job was read from.
        notes: What the source asks for and Netweave does otherwise, one sentence each.
    """

    name: str
    phases: Mapping[str, Phase]
    solver: Solver
    schedule: Schedule
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    algorithm: str = "bp"
    algorithm_settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    cluster: Cluster | None = None
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def tests(self) -> dict[str, Phase]:
        """The phases that test, by name."""
        return {name: phase for name, phase in self.phases.items() if name.startswith("test")}

    @property
    def running(self) -> dict[str, Phase]:
        """The phases that a run computes and feeds with data, by name."""
        return {name: phase for name, phase in self.phases.items() if name not in {"up", "down"}}

    def to_json(self) -> dict[str, Any]:
        """Return everything but the graphs as JSON values."""
        settings = {name: _plain(getattr(self, name)) for name in _fields(Job) if name != "phases"}
        phases = {
            name: {key: _plain(getattr(phase, key)) for key in _fields(Phase) if key != "graph"}
            for name, phase in self.phases.items()
        }
        return {"version": VERSION, **settings, "phases": phases}

    @staticmethod
    def from_json(content: Mapping[str, Any], graphs: Mapping[str, Graph]) -> Job:
        """Return the Job that ``to_json`` was called on.

        Args:
            content: What ``to_json`` returned.
            graphs: The graph of each phase.

        Raises:
            ValueError: The content is of another version.
        """
        if content.get("version") != VERSION:
            raise ValueError(f"a job of version {content.get('version')}, expected {VERSION}")
        return Job(
            name=content["name"],
            phases={name: _phase(row, graphs[name]) for name, row in content["phases"].items()},
            solver=Solver(**{**content["solver"], "policy": Policy(**content["solver"]["policy"])}),
            schedule=Schedule(**content["schedule"]),
            checkpoints=Checkpoints(**_tuples(content["checkpoints"], "formats", "weights")),
            algorithm=content["algorithm"],
            algorithm_settings=content["algorithm_settings"],
            seed=content["seed"],
            cluster=_cluster(content["cluster"]) if content["cluster"] else None,
            files=tuple(content["files"]),
            notes=tuple(content["notes"]),
        )


def _phase(row: Mapping[str, Any], graph: Graph) -> Phase:
    data = tuple(DataSource(**_tuples(source, "outputs", "transforms")) for source in row["data"])
    return Phase(graph, data, losses=row["losses"], num_batches=row["num_batches"], metric=row["metric"])


def _cluster(row: Mapping[str, Any]) -> Cluster:
    from netweave.graph.passes.partition import LayerCut  # whoever writes checkpoints needs no graph

    return Cluster(**{**row, "layers": tuple(LayerCut(**layer) for layer in row.get("layers", ()))})


def _tuples(row: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: tuple(value) if key in keys else value for key, value in row.items()}


def _fields(kind: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def _plain(value: Any) -> Any:
    """Turn dataclasses, mappings and tuples into dictionaries and lists, all the way down."""
    if dataclasses.is_dataclass(value):
        return {name: _plain(getattr(value, name)) for name in _fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


Probe = Callable[[DataSource], Mapping[str, tuple[int, ...]]]
"""Gives the sizes of what a source of data holds, by name; batch size first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The options of a reader of Jobs.

    Attributes:
        input_shapes: Sizes of inputs by name, over what is said or probed; batch size first.
        data: By phase, where its records are, instead of what its net names; under ``""`` what says so for
            all phases (Darknet's ``.data``), under ``mean`` a mean file (Caffe).
        kind_of: Tells what kind of records a path holds; without it the kind that the file names.
        stages: Stages that all nets are in, besides those of the file (Caffe).
        level: Level that all nets are at, if not 0 (Caffe).
        allow_urls: URLs, or beginnings of them, that the files may name for records (``netweave.job``).
        probe: Looks into the data for sizes; without it the nets must say them.
    """

    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    stages: tuple[str, ...] = ()
    level: int = 0
    allow_urls: tuple[str, ...] = ()
    probe: Probe | None = None
    kind_of: Callable[[str], str] | None = None


@dataclass(frozen=True, slots=True)
class RunState:
    """The arrays of a run, and where it is.

    Attributes:
        graph: The training net.
        iteration: Updates done.
        samples: Records that these updates looked at; one that came up again counts again.
        parameters: All stored arrays, by key.
        kept: What the update rule keeps, by its name for it and by key, in the source's order.
        policy: What the learning-rate policy remembers.
        gradients: The last gradients by key; None where nobody wants them.
        parts: The part of each worker, by key, of arrays that not all workers hold; None where one has none.
    """

    graph: Graph
    iteration: int
    samples: int
    parameters: Arrays = field(repr=False)
    kept: Mapping[str, Arrays] = field(repr=False)
    policy: Mapping[str, float] = field(default_factory=dict)
    gradients: Arrays | None = field(default=None, repr=False)
    parts: Mapping[str, tuple[np.ndarray | None, ...]] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class FoundState:
    """A solver's state that a file of the source's own has.

    Attributes:
        iteration: Updates done.
        weights: The file of weights that goes with it.
        kept: As in ``RunState``.
        policy: As in ``RunState``.
    """

    iteration: int
    weights: Path
    kept: Mapping[str, Arrays] = field(repr=False)
    policy: Mapping[str, float] = field(default_factory=dict)


LISTS = ("images", "windows")
"""Kinds of sources whose files list names that may be URLs."""


def is_allowed(url: str, allowed: Sequence[str]) -> bool:
    """Return whether a URL is, or lies below, one that is allowed.

    >>> is_allowed("s3://mine/a.rec", ["s3://mine"]), is_allowed("s3://mine-too/a.rec", ["s3://mine"])
    (True, False)
    >>> is_allowed("s3://any/a.rec", ["s3://"]), is_allowed("zip://a::http://b", ["zip://"])
    (True, False)
    """
    if "::" in url and url not in allowed:  # fsspec's chains: one store inside of another
        return False
    return any(
        url == one or url.startswith(one if one.endswith("/") else f"{one}/") for one in allowed if one
    )


def require_allowed(name: str, allowed: Sequence[str], place: str) -> None:
    """Check a name that a file gives; names without ``://`` are those of local files.

    Raises:
        UsageError: It is a URL, and not allowed.
    """
    if "://" in name and not is_allowed(name, allowed):
        scheme, _, rest = name.partition("://")
        store = f"{scheme}://{rest.partition('/')[0]}"
        raise UsageError(
            f"{place}: names {name!r:.200}; a URL in a file is opened only if you allow it: "
            f"--allow-url {store:.100} (load_job(allow_urls=...)), or name the records yourself with --data"
        )


def checked_source(source: DataSource, allowed: Sequence[str]) -> DataSource:
    """Return a source that opens no URL but those that are allowed, its lists included.

    Raises:
        UsageError: It names another.
    """
    for name in _texts((source.settings, source.transforms)):
        require_allowed(name, allowed, source.place)
    if source.kind not in LISTS:
        return source
    return replace(source, settings={**source.settings, "urls": list(allowed)})


def checked_phases(phases: Mapping[str, Phase], allowed: Sequence[str]) -> dict[str, Phase]:
    """Return phases whose sources are checked."""
    return {
        name: replace(phase, data=tuple(checked_source(source, allowed) for source in phase.data))
        for name, phase in phases.items()
    }


def checked_job(job: Job, allowed: Sequence[str]) -> Job:
    """Return a Job whose sources are checked."""
    return replace(job, phases=checked_phases(job.phases, allowed))


def checked_probe(probe: Probe, allowed: Sequence[str]) -> Probe:
    """Return a probe that opens no URL but those that are allowed."""
    return lambda source: probe(checked_source(source, allowed))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)
