"""The Job: the graphs of a training, where their batches come from, and how parameters change."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from netweave.job.data import DataSource
from netweave.job.settings import Checkpoints, Cluster, Policy, Schedule, Solver

if TYPE_CHECKING:
    from netweave.graph import Graph

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
    """How to train.

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
        initializer: The rule for first values of weights that have none of their own, where the source of
            the nets leaves it to the run (MXNet): ``{"type": ..., its settings}``.
        cluster: The shape of the machinery.
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
    initializer: Mapping[str, Any] = field(default_factory=dict)
    cluster: Cluster = field(default_factory=Cluster)
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
        solver = dict(content["solver"])
        return Job(
            name=content["name"],
            phases={name: _phase(row, graphs[name]) for name, row in content["phases"].items()},
            solver=Solver(**{**solver, "policy": Policy(**solver["policy"])}),
            schedule=Schedule(**content["schedule"]),
            checkpoints=Checkpoints(**_tuples(content["checkpoints"], "formats", "weights")),
            algorithm=content["algorithm"],
            algorithm_settings=content["algorithm_settings"],
            seed=content["seed"],
            initializer=content["initializer"],
            cluster=Cluster(**content["cluster"]),
            files=tuple(content["files"]),
            notes=tuple(content["notes"]),
        )


def _phase(row: Mapping[str, Any], graph: Graph) -> Phase:
    data = tuple(DataSource(**_tuples(source, "outputs", "transforms")) for source in row["data"])
    metric = row.get("metric", {})  # those of earlier versions have none
    return Phase(graph, data, losses=row["losses"], num_batches=row["num_batches"], metric=metric)


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
