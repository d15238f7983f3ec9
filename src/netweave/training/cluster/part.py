"""The part of one process in a cluster: its worker group, its server, and its sessions with others.

All processes meet through one store. A worker group is a world of its own inside, as if it trained alone; its
first rank talks to the servers. A server answers each session on a thread of its own.

Where our launcher starts processes again, and there is one group of servers, a server or one of several
worker groups that dies is started again alone. A server goes on from its own checkpoint in the launcher's
folder, a worker group from what the servers hold. The only worker group goes on from the run's checkpoint,
with all: the servers may hold a part of its last update, and a synchronous run ends as one process does.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

from netweave.errors import NetweaveError, PeerError, ReadError, UsageError
from netweave.job import Checkpoints
from netweave.training.cluster.outer import Synchroniser
from netweave.training.cluster.server import Server, report_lines
from netweave.training.cluster.topology import plan_topology, trained_sizes
from netweave.training.cluster.updates import JobSlices, ServedUpdater
from netweave.training.cluster.wire import Pair, Rejoining, RemoteServer, connect, serve
from netweave.training.loading import make_nets, trained
from netweave.training.net_passes import COMPUTE
from netweave.training.optim import Updater
from netweave.training.optim.rule import make_rule
from netweave.training.parallel.environment import ERROR_FILE, restarts_single_ranks
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

SAVE_S, SAVE_SHARE = 0.5, 0.1
"""A server saves so often, and for at most this share of the time; workers keep gradients meanwhile."""

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
        self._connected, self._ended = threading.Event(), threading.Event()
        self._errors: list[BaseException] = []
        self._others: dict[int, Service] = {}
        self._stop_signals = {signal.SIGINT, signal.SIGTERM, getattr(signal, f"SIG{options.stop_signal}")}
        self._servers: list[Service] = []
        self._can_rejoin = (
            restarts_single_ranks() and cluster.server_groups == 1 and not self.topology.is_all_reduce
        )
        if self._can_rejoin:
            self.store.keys.add(f"starts/{environment.rank}", 1)
            self._leave_if_done()
        self._stop, self._look_s = 0, 0.0
        self._updater: ServedUpdater | None = None

    def _leave_if_done(self) -> None:
        """End again if this process was killed when its group was done, and waited for the others.

        Raises:
            SystemExit: It was.
            PeerError: It was, and is of the first group, whose result is lost: all go on from the checkpoint.
        """
        worker = self.role.worker
        if not self._environment.rejoins or worker is None:
            return
        if self.store.has_ended(self.topology.worker_rank(worker.group)):
            if worker.group:
                raise SystemExit(0)
            raise PeerError(f"process {self.role.rank} was done; nobody waits for it to come again")

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
        if self._environment.rejoins and self.is_first:
            return start
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
            rejoins=False,  # all of the group begin together
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

    def begin(self, engine: Engine, updater: Updater, world: World) -> bool:
        """Connect the updater, and give the servers first values, if this process is to do so.

        A group that was started again alone takes over what they hold.

        Args:
            engine: Where updates run: as many at once as there are servers.
            updater: Of this worker.
            world: The group.

        Returns:
            True if the group was started again; then the updater has the iteration to go on from.
        """
        if self._updater is not None:
            self._connect_updater(engine, self._updater)
        if not self._environment.rejoins:
            return False
        done = 0 if self._updater is None else self._updater.resume()
        updater.iteration = int(world.share(done, "updates on the servers"))
        if world.size > 1:
            for tensor in updater.parameters.values():
                with world.watched("the values of the servers"):
                    distributed.broadcast(tensor.detach(), 0, group=world.group("objects"))
        return True

    def _connect_updater(self, engine: Engine, updater: ServedUpdater) -> None:
        worker = self.role.worker
        assert worker is not None
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
        if is_first and not self._environment.rejoins:
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
        if self._can_rejoin and (self.role.worker is None or self.cluster.worker_groups > 1):
            self.store.announce_unit(self._unit())

    def _unit(self) -> list[int]:
        """Return the processes that are started again with this one: its worker group."""
        worker = self.role.worker
        if worker is None:
            return [self.role.rank]
        return [
            role.rank
            for role in self.topology.roles
            if role.worker is not None and role.worker.group == worker.group
        ]

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
        if self._can_rejoin:
            self._restore(self.server)
        groups = [group for group in range(self.cluster.server_groups) if group != member.group]
        workers = [rank for rank in map(self.topology.worker_rank, served) if rank != self.role.rank]
        self._of_workers = [self._begin_session(rank) for rank in workers]
        self._of_servers = [
            self._begin_session(self.topology.server_rank(group, member.number)) for group in groups
        ]
        self._others.update({group: self._service(group, member.number) for group in groups})
        self._connected.set()

    def _restore(self, server: Server) -> None:
        """Go on from the checkpoint of a server that was here before, and save from now on.

        Raises:
            PeerError: The checkpoint is damaged; all processes must go on from that of the run.
        """
        folder = Path(os.environ[ERROR_FILE]).parent
        path = folder / f"server-{self.role.rank}-{self.store.met}.checkpoint"
        if self._environment.rejoins and path.exists():
            try:
                server.restore(path)
            except ReadError as error:
                raise PeerError(f"the server cannot go on where it was: {error}") from error
        server.checkpoint = path
        threading.Thread(target=self._save_often, args=(server,), name="saves", daemon=True).start()

    def _save_often(self, server: Server) -> None:
        saved, pause_s = -1, SAVE_S
        while not self._ended.wait(pause_s):
            applied, began_s = server.applied, time.monotonic()
            if applied == saved:
                continue
            try:
                server.keep()
            except NetweaveError as error:  # the disk is full: raised where requests are answered
                server.fail(error)
                return
            saved, pause_s = applied, max(SAVE_S, (time.monotonic() - began_s) / SAVE_SHARE)

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
        return RemoteServer(self._session(self.role.rank, rank, 0), timeout_s=self._timeout_s)

    def _session(self, client: int, server: int, side: int) -> Pair | Rejoining:
        if self._can_rejoin:
            return Rejoining(
                self.store, client, server, side=side, dtype=self._dtype, timeout_s=self._timeout_s
            )
        return connect(self.store, client, server, side=side, dtype=self._dtype, timeout_s=self._timeout_s)

    def _begin_session(self, client: int) -> threading.Thread:
        name = f"session with process {client}"
        thread = threading.Thread(target=self._answer, args=(client,), name=name, daemon=True)
        thread.start()
        return thread

    def _answer(self, client: int) -> None:
        assert self.server is not None
        try:
            session = self._session(client, self.role.rank, 1)
            self._connected.wait(self._timeout_s)
            serve(self.server, session)
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
        self._ended.set()
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
            self.store.announce_end()
            for server in self._servers:
                if isinstance(server, RemoteServer):
                    server.end()
        self._end_sessions()
        if not self.topology.is_all_reduce:
            groups = range(self.cluster.worker_groups)
            self.store.await_ends([self.topology.worker_rank(group) for group in groups])
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
    except SystemExit:  # it was told to stop, and has written its checkpoint
        part.store.announce_end()
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
