"""The part of one process in a cluster: its worker group, its server, and its sessions with others.

All processes meet through one store. A worker group is a world of its own inside, as if it trained alone; its
first rank talks to the servers. A server answers each session on a thread of its own.
"""

from __future__ import annotations

import contextlib
import secrets
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from netweave.errors import NetweaveError, PeerError, UsageError
from netweave.job import Checkpoints
from netweave.training.cluster.outer import Synchroniser
from netweave.training.cluster.server import Server, report_lines
from netweave.training.cluster.topology import plan_topology, trained_sizes
from netweave.training.cluster.updates import JobSlices, ServedUpdater
from netweave.training.cluster.wire import Pair, RemoteServer, connect, serve
from netweave.training.loading import make_nets, trained
from netweave.training.net_passes import COMPUTE
from netweave.training.optim import Updater
from netweave.training.optim.rule import make_rule
from netweave.training.parallel.world import RankStore, join, use_loopback

if TYPE_CHECKING:
    from collections.abc import Iterator

    from netweave.job import Job
    from netweave.runtime.backends.torch import TorchNet
    from netweave.runtime.engine import Engine
    from netweave.training.cluster.server import Service
    from netweave.training.cluster.topology import Member, Role, Topology
    from netweave.training.parallel.environment import RankEnvironment
    from netweave.training.parallel.plan import ExchangeSettings
    from netweave.training.parallel.world import World
    from netweave.training.watchers import TrainOptions

LANE = "servers"
"""Where workers push and pull: a thread for each server."""

LOOK_S = 0.5
"""So often does a worker group look whether another was asked to stop."""

_STOP = "stop"


class ClusterPart:
    """One process of a cluster.

    Args:
        job: What is trained; it has a cluster.
        options: How; those that a cluster cannot have are refused.
        environment: This process among all of the cluster.
        timeout_s: How long another process is waited for.
        dtype: Type of the numbers.

    Attributes:
        topology: Who does what.
        role: What this process does.
        server: The server of this process; None if it has none.

    Raises:
        UsageError: The cluster does not go with the processes, the net or the solver.
    """

    def __init__(
        self,
        job: Job,
        options: TrainOptions,
        environment: RankEnvironment,
        *,
        timeout_s: float,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        assert job.cluster is not None
        cluster = self.cluster = job.cluster
        cluster.require_processes(environment.size)
        rule = make_rule(job.solver.kind, job.solver.settings)
        require_trainable(job, options, measures=rule.measures)
        self.topology: Topology = plan_topology(
            cluster,
            trained_sizes(job.phases["train"].graph),
            whole_parameters=rule.whole_parameters,
            element_bytes=dtype.itemsize,
        )
        self.role: Role = self.topology.roles[environment.rank]
        self._job, self._dtype, self._timeout_s = job, dtype, timeout_s
        self._environment = environment
        use_loopback(environment)
        self.store = RankStore(environment, timeout_s=timeout_s)
        self.store.names = [f"process {role.rank} ({role})" for role in self.topology.roles]
        self.server: Server | None = None
        self._net: TorchNet | None = None
        self._of_workers: list[threading.Thread] = []
        self._of_servers: list[threading.Thread] = []
        self._connected = threading.Event()
        self._errors: list[BaseException] = []
        self._others: dict[int, Service] = {}
        self._stop_signals = {signal.SIGINT, signal.SIGTERM, getattr(signal, f"SIG{options.stop_signal}")}
        self._servers: list[Service] = []
        self._stop, self._look_s = 0, 0.0
        self._updater: ServedUpdater | None = None

    @property
    def is_first(self) -> bool:
        """True if this process is in the group that shows, tests and writes checkpoints."""
        return self.role.worker is not None and self.role.worker.group == 0

    @property
    def _is_leader(self) -> bool:
        return self.role.worker is not None and self.role.worker.number == 0

    def lines(self) -> list[str]:
        """Return the first lines of the log of the first process: what has no effect, and all roles."""
        if self.role.rank:
            return []
        roles = [self.topology.describe(role.rank) for role in self.topology.roles]
        of_job = self.cluster.file in self._job.files  # whose notes have said so
        return [*([] if of_job else self.cluster.without_effect()), *roles]

    def choose_seed(self, asked: int | None) -> int:
        """Return the seed of the run, the same for all; with it servers begin, and all connect to them."""
        wanted = self._job.seed if asked is None else asked
        seed = int(self.store.keep(lambda: secrets.randbits(31) if wanted is None else wanted, "seed"))
        self.connect(seed)
        return seed

    def share_start(self, start: Path | None) -> Path | None:
        """Return the checkpoint that the first process goes on from; all processes call this once."""
        shared = self.store.share(None if start is None else str(start), "start")
        return Path(shared) if shared else None

    # A worker.

    @property
    def groups(self) -> tuple[int, int]:
        """This worker group, and how many there are."""
        assert self.role.worker is not None
        return self.role.worker.group, self.cluster.worker_groups

    def join_group(self, device: str | None) -> World:
        """Join the other workers of the group."""
        assert self.role.worker is not None
        environment = replace(
            self._environment,
            rank=self.role.worker.number,
            size=self.cluster.workers_per_group,
            agent_holds_store=True,  # whoever does: the processes have met
            group=f"worker group {self.role.worker.group}",
        )
        world = join(environment, device=device, timeout_s=self._timeout_s)
        assert world is not None
        world.part = self
        return world

    def exchange_settings(self, settings: ExchangeSettings) -> ExchangeSettings:
        """Return how the group exchanges gradients: each slice goes to the rank that updates it."""
        holders = self.topology.placement.holders
        owners = holders if self.topology.is_all_reduce else (0,) * len(holders)
        return replace(settings, kind="owner", owners=owners)

    def agree_to_stop(self, status: int) -> int:
        """Return the exit status with which any group was asked to stop; 0 if none was, as far as is known.

        Args:
            status: That of this group.
        """
        if not self._is_leader:
            return status
        if status and not self._stop:
            self.store.keys.set(_STOP, str(status))
        elif not status and time.monotonic() >= self._look_s:
            self._look_s = time.monotonic() + LOOK_S
            status = int(self.store.keys.get(_STOP)) if self.store.keys.check([_STOP]) else 0
        self._stop = status
        return status

    def make_updater(self, *arguments: Any, seed: int) -> Updater:
        """Return what updates the parameters of this worker; arguments are those of ``Updater``."""
        layout = self.topology.placement.layout
        if self.topology.is_all_reduce or not self._is_leader:
            return Updater(*arguments, seed=seed, layout=layout)
        holders = self.topology.placement.holders
        self._updater = ServedUpdater(*arguments, holders=holders, seed=seed, layout=layout)
        return self._updater

    @property
    def lane(self) -> str:
        """The lane on which this worker updates slices."""
        is_served = self._is_leader and not self.topology.is_all_reduce
        return LANE if is_served else COMPUTE

    def begin(self, engine: Engine) -> None:
        """Connect the updater, and give the servers first values, if this process is to do so.

        Args:
            engine: Where updates run: as many at once as there are servers.
        """
        updater, worker = self._updater, self.role.worker
        if updater is None or worker is None:
            return
        engine.add_lane(LANE, self.cluster.servers_per_group)
        servers = self.topology.server_group_of(worker.group)
        served = self.topology.served_by(servers)
        is_first = served[0] == worker.group
        synchronises = is_first and self.cluster.server_groups > 1
        updater.connect(
            self._servers,
            worker.group,
            num_groups=len(served),
            sync_every=self.cluster.sync_every if synchronises else 0,
        )
        if is_first:
            updater.put()

    def options_of_group(self, options: TrainOptions) -> TrainOptions:
        """Return the options of this worker group: the first alone writes files."""
        if self.is_first:
            return options
        return replace(options, events=None, plot=None, trace=None, ledger=None, monitor=None)

    def of_group(self, job: Job) -> Job:
        """Return what this worker group trains: the others than the first test, show and write nothing."""
        if self.is_first:
            return job
        return replace(
            job,
            phases={"train": job.phases["train"]},
            schedule=replace(
                job.schedule, display_interval=0, test_interval=0, validate_interval=0, display_at_end=False
            ),
            checkpoints=Checkpoints(at_end=False, weights=job.checkpoints.weights),
        )

    # Servers, and the sessions with them.

    def connect(self, seed: int) -> None:
        """Begin to serve, and connect to the servers that this process talks to; all processes do.

        Args:
            seed: Of what update rules draw.
        """
        if self.topology.is_all_reduce:
            return
        if self.role.server is not None:
            self._open_server(self.role.server, seed)
        if self._is_leader and self.role.worker is not None:
            group = self.topology.server_group_of(self.role.worker.group)
            count = self.cluster.servers_per_group
            self._servers = [self._service(group, number) for number in range(count)]

    def _open_server(self, member: Member, seed: int) -> None:
        synchroniser = None
        if self.cluster.server_groups > 1:
            synchroniser = Synchroniser(
                self.cluster, member.group, self.topology.masters, self._others, timeout_s=self._timeout_s
            )
        served = self.topology.served_by(member.group)
        self.server = Server(
            JobSlices(self._own_updater(seed)),
            served,
            staleness=self.cluster.staleness,
            timeout_s=self._timeout_s,
            synchroniser=synchroniser,
        )
        groups = [group for group in range(self.cluster.server_groups) if group != member.group]
        workers = [rank for rank in map(self.topology.worker_rank, served) if rank != self.role.rank]
        self._of_workers = [self._begin_session(rank) for rank in workers]
        self._of_servers = [
            self._begin_session(self.topology.server_rank(group, member.number)) for group in groups
        ]
        self._others.update({group: self._service(group, member.number) for group in groups})
        self._connected.set()

    def serve(self) -> TorchNet:
        """Serve until all sessions have ended; return the net with the values that are held here.

        A signal to stop is for the workers: this process ends when they do.
        """
        if threading.current_thread() is threading.main_thread():
            for number in self._stop_signals:
                signal.signal(number, signal.SIG_IGN)
        self.share_start(None)
        self._end_sessions()
        assert self._net is not None
        return self._net

    def _own_updater(self, seed: int) -> Updater:
        """Return an updater of parameters of this server's own."""
        job = self._job
        phases = {"train": job.phases["train"]}
        self._net = make_nets(phases, seed=0, device=torch.device("cpu"), dtype=self._dtype)["train"]
        parameters = trained(job.phases["train"].graph, self._net, job.solver.gradient_mult)
        return Updater(job.solver, parameters, seed=seed, layout=self.topology.placement.layout)

    def _service(self, group: int, number: int) -> Service:
        rank = self.topology.server_rank(group, number)
        if rank == self.role.rank:
            assert self.server is not None
            return self.server
        return RemoteServer(self._pair(self.role.rank, rank, 0), timeout_s=self._timeout_s)

    def _pair(self, client: int, server: int, side: int) -> Pair:
        return connect(self.store, client, server, side=side, dtype=self._dtype, timeout_s=self._timeout_s)

    def _begin_session(self, client: int) -> threading.Thread:
        name = f"session with process {client}"
        thread = threading.Thread(target=self._answer, args=(client,), name=name, daemon=True)
        thread.start()
        return thread

    def _answer(self, client: int) -> None:
        assert self.server is not None
        try:
            pair = self._pair(client, self.role.rank, 1)
            self._connected.wait(self._timeout_s)
            serve(self.server, pair)
        except BaseException as error:  # noqa: BLE001 - raised where the thread is waited for
            self._errors.append(error)
            self.server.fail(error)

    def _end_sessions(self) -> None:
        """Serve the workers to their end, then let go of the other servers, and serve them to theirs."""
        for thread in self._of_workers:
            thread.join()
        for other in self._others.values():
            assert isinstance(other, RemoteServer)
            if not self._errors:
                other.end()
        for thread in self._of_servers:
            thread.join()
        for error in self._errors:
            raise PeerError(f"process {self.role.rank} cannot go on: {error}") from error

    def close(self) -> list[str]:
        """End after a run that went well: let go of the servers, and serve others until they are done.

        Returns:
            Lines of what the servers have counted, for the first process.
        """
        lines: list[str] = []
        worker = self.role.worker
        if self._servers and worker is not None:
            for server in self._servers:
                server.leave(worker.group)
            if self.role.rank == 0:
                lines = report_lines([server.report() for server in self._servers])
            for server in self._servers:
                if isinstance(server, RemoteServer):
                    server.end()
        self._end_sessions()
        return lines


@contextlib.contextmanager
def cluster_part(
    job: Job, options: TrainOptions, environment: RankEnvironment, **settings: Any
) -> Iterator[ClusterPart]:
    """Take part in a cluster; tell the others why, where that fails.

    Args:
        job: What is trained.
        options: How.
        environment: This process.
        settings: Further arguments of ``ClusterPart``.
    """
    part = ClusterPart(job, options, environment, **settings)
    try:
        yield part
    except NetweaveError as error:
        if not isinstance(error, PeerError):
            part.store.announce_failure(str(error))
        part.store.leave()
        raise
    part.store.leave()


def require_trainable(job: Job, options: TrainOptions, *, measures: bool) -> None:
    """Refuse what worker groups that do not wait for each other, or servers, cannot do.

    Args:
        job: What is trained; it has a cluster.
        options: How.
        measures: Whether the update rule needs norms over all gradients.

    Raises:
        UsageError: The solver needs all gradients of one moment, the net the whole batch of all groups, or
            an option is for processes without servers.
    """
    cluster = job.cluster
    assert cluster is not None
    graph = job.phases["train"].graph
    if measures and cluster.worker_groups > cluster.server_groups:
        raise cluster.error(
            "worker_groups",
            f"{job.solver.kind} with these settings needs norms over all gradients at once (clipping by the "
            "norm, LARS, LAMB), and the servers change slices as gradients of several worker groups come; "
            "take one worker group, as many server groups as worker groups, or another rule",
        )
    norms = [node for node in graph.nodes if node.op_type == "BatchNormalization"]
    if norms and options.sync_batch_norm and cluster.worker_groups > 1:
        raise cluster.error(
            "worker_groups",
            f"{graph.place_of(norms[0])}: batch normalisation cannot take the statistics of worker groups "
            "that do not wait for each other; use --no-sync-batch-norm (sync_batch_norm=False), or one "
            "worker group",
        )
    for name, default in (("exchange", "overlapped"), ("same_bits", None), ("memory", None)):
        if getattr(options, name) != default:
            raise UsageError(
                f"{name} does not go with a cluster, whose servers say where slices go; leave it out"
            )
