"""A run of a Job: Caffe's order of things (``Solver::Step`` and ``Solver::Solve`` at 1.0)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

from netweave.errors import RunError
from netweave.files.library_errors import reading
from netweave.graph.passes.partition import partition_plan
from netweave.job import Job, Phase
from netweave.runtime.backends.torch import TorchNet
from netweave.runtime.backends.torch.device import find_device, release_threads
from netweave.runtime.backends.torch.kernels import PLAIN, Kernels, TriedKernels
from netweave.runtime.backends.torch.net import parameter_not_finite
from netweave.runtime.backends.torch.node_memory import to_array
from netweave.runtime.backends.torch.stages import cut
from netweave.runtime.engine import Engine
from netweave.runtime.memory_plan import parse_bytes
from netweave.training.checkpoint_file import Checkpoint, nested, read_run, run_in_common, values_in_common
from netweave.training.checkpoint_writer import KEPT, CheckpointWriter
from netweave.training.events import Ended, Evaluated, Note, Saved, Shown, Stopped, Updated, Watch
from netweave.training.goodput import Ledger, RankWork, RecordSpeed
from netweave.training.history import History
from netweave.training.loading import Given, LoaderConfig, PhaseLoader, TrainState, make_nets, trained
from netweave.training.loop import Loop
from netweave.training.metrics import MeanOutputs, OutputElements, elements, norms_of
from netweave.training.monitor import Look
from netweave.training.net_passes import (
    COMPUTE,
    DTYPES,
    NetPasses,
    Part,
    Where,
    check_can_train,
    choose_run_name,
    choose_seed,
    saved_slice_elements,
)
from netweave.training.optim import Updater
from netweave.training.optim.rule import SLICE_ELEMENTS
from netweave.training.parallel.environment import INTERRUPTED
from netweave.training.parallel.shards import THREADS, check_promise
from netweave.training.partition_ranks import PartitionedState, PartitionRanks, partition_of, whole_net
from netweave.training.partitioned import Partition, placement_lines
from netweave.training.pipeline import PipelineProgram, PipelineRanks
from netweave.training.process import let_others_interrupt, limit_memory
from netweave.training.rank_exchange import RankExchange
from netweave.training.shard_ranks import ShardRanks
from netweave.training.step_program import StepProgram, StepResult
from netweave.training.testing import Evaluator, turns_of
from netweave.training.watchers import TrainOptions

if TYPE_CHECKING:
    from netweave.graph import Graph
    from netweave.graph.passes.partition import PartitionPlan
    from netweave.training.parallel.world import World


def require_finite_parameters(job: Job, net: TorchNet, iteration: int) -> None:
    """Refuse to go on with parameters that the last update made nan or inf: its loss was still finite.

    Args:
        job: What is trained.
        net: The training net.
        iteration: Updates done.

    Raises:
        RunError: A parameter is not finite.
    """
    key = parameter_not_finite(net, job.phases["train"].graph)
    if key is not None:
        raise RunError(
            f"{job.name}: the update of iteration {iteration - 1} left nan or inf in the parameter "
            f"{key!r}; nothing is written from here on. Take a lower learning rate, or clip gradients, and "
            "resume from an earlier checkpoint"
        )


def require_finite_loss(job: Job, iteration: int, phase: str, loss: float) -> None:
    """Fail a run whose last loss is nan or inf, which no further iteration would find.

    Args:
        job: What is trained.
        iteration: Updates done.
        phase: What the loss is of.
        loss: The loss.

    Raises:
        RunError: It is not finite.
    """
    if not math.isfinite(loss):
        raise RunError(
            f"{job.name}: after iteration {iteration} the loss of {phase!r} is {loss}. Take a lower "
            "learning rate, or clip gradients, and resume from an earlier checkpoint"
        )


def _start_of(options: TrainOptions) -> tuple[Path | None, Checkpoint | None]:
    """Return the file that a run begins from, and the checkpoint in it if it is one of Netweave's."""
    if not options.resume:
        return None, None
    file = Path(str(options.resume))
    checkpoint = None if ".solverstate" in file.name else read_run(file)
    check_promise(options, checkpoint)
    return file, checkpoint


class Trainer(Loop):
    """One run of a Job on one device.

    What is drawn depends on the seed, the iteration, the sample and the node only, so that a run can go on
    anywhere.

    Args:
        job: What to do.
        options: How to do it; ``resume`` is a file, and where to compute is ``device`` and ``world``.
        engine: Where batches are made, nets are computed and checkpoints are written.
        device: Where to compute.
        dtype: Type of the numbers, ``torch.float32`` or ``torch.float64``.
        nets: Nets that are there already, by phase, instead of fresh ones.
        update_lane: Lane of the engine on which slices are updated.
        content: Returns JSON values that checkpoints hold besides, by name.
        world: The ranks that make each update together; None for this process alone.
        looks: What looks at values of the training net; nets that are there must give their taps.
        watch: Told what happens.

    Attributes:
        job: The Job.
        nets: The net of each phase, by name; they share their arrays.
        updater: Rule, policy and their state.
        program: The tasks of an update.
        seed: That of the run that goes on, the Job's, or a fresh one.
        history: The run's curves, from its beginning.
        iteration: Updates done; those on their way count.

    Raises:
        UsageError: A rule, policy, filler or transform cannot be made, an input is not fed, or no plan fits
            in ``memory``.
        UnsupportedError: The Job wants an algorithm or a cluster that there is not.
        SourceError: Data, weights or a checkpoint cannot be read, or do not fit.
    """

    def __init__(
        self,
        job: Job,
        options: TrainOptions | None = None,
        *,
        engine: Engine,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        nets: Mapping[str, TorchNet] | None = None,
        update_lane: str = COMPUTE,
        content: Callable[[], Mapping[str, Any]] = dict,
        world: World | None = None,
        looks: Sequence[Look] = (),
        watch: Watch = lambda event: None,
    ) -> None:
        options = options or TrainOptions()
        check_can_train(job, dtype, options.precision, find_device(device))
        super().__init__(job.checkpoints)
        self.job = job
        resume, checkpoint = _start_of(options)
        self.seed: int = checkpoint.state["seed"] if checkpoint else choose_seed(job, options.seed, world)
        self._engine = engine
        self.history = History()
        self._watch = watch
        self._content = content
        self._part = None if world is None else world.part
        lane = update_lane if self._part is None else self._part.lane
        where = self._where = Where(find_device(device), options.precision == "bf16", self.seed, lane)
        self._num_threads = _prepare_thread(
            engine, exchanges=world is not None, threads=THREADS if options.same_bits else None
        )
        self._looks = [*looks, *norms_of(job)]
        taps = [name for look in self._looks for name in look.taps]
        self.nets = dict(nets or {}) or self._make_nets(taps, dtype, is_fresh=not resume)
        self._save_every_s, self._saved_s, self._saves = options.checkpoint_every_s, perf_counter(), False
        self._ranks: RankExchange | None = None
        self._partition = self._cut_nets(options, world, taps, dtype)
        self._ranks = _exchange_with(world, options, engine, self._partition)
        self._kernels = self._set_kernels(options, checkpoint)
        self.updater = self._make_updater(
            saved_slice_elements(checkpoint) or options.slice_elements or SLICE_ELEMENTS
        )
        self.program = self._make_program(options, taps)
        self._state = self._make_state()
        self._writer = CheckpointWriter(
            job.checkpoints,
            engine,
            keep=options.keep or KEPT,
            run=(checkpoint.origin.run if checkpoint else "") or choose_run_name(world),
        )
        self._speed = RecordSpeed()
        self._since_display = MeanOutputs()
        self._num_samples = 0
        for net in self.nets.values():
            net.guard(self.program.wait)
        self._loaders: dict[str, PhaseLoader] = {}
        self._evaluator = Evaluator(
            job, self.nets, self._loaders, self.program, engine=engine, where=where, ranks=self._ranks
        )
        try:
            config = LoaderConfig(engine, self.seed, DTYPES[dtype], options.threads)
            self._open_loaders(config, options.data or {})
            self._require_same_run(
                options.num_stages or 1, {"the precision": options.precision, "numbers": str(dtype)}
            )
            self._go_on(checkpoint, resume, options.ledger)
        except BaseException:
            self.close()
            raise

    def _set_kernels(self, options: TrainOptions, checkpoint: Checkpoint | None) -> Kernels:
        """Give the nets what multiplies matrices: after a checkpoint the same kernels as before it.

        There are no trials with ``same_bits``, nor within a memory limit: a plan knows torch's kernels.
        """
        kernels, choices = PLAIN, checkpoint.state.get("kernels") if checkpoint else []
        if choices is not None and options.same_bits is None and options.memory is None:
            rank = 0 if self._ranks is None else self._ranks.world.rank
            kernels = TriedKernels(choices[rank] if rank < len(choices) else {})
        for net in self.nets.values():
            net.set_kernels(kernels)
        return kernels

    def _make_nets(self, taps: Sequence[str], dtype: torch.dtype, *, is_fresh: bool) -> dict[str, TorchNet]:
        return make_nets(
            self.job.phases,
            train_taps=taps,
            weights=self.job.checkpoints.weights,
            seed=self.seed,
            device=self._where.device,
            dtype=dtype,
            tell=lambda text: self._watch(Note(text)) if is_fresh else None,
        )

    def _cut_nets(
        self, options: TrainOptions, world: World | None, taps: Sequence[str], dtype: torch.dtype
    ) -> Partition | None:
        """Take this rank's part of the nets, where they are cut by layer."""
        self._partition = partition = partition_of(self.job, options, world, taps=taps)
        if partition is not None:
            self.nets = partition.nets(self.nets)
            for line in partition.lines():
                self._watch(Note(line))
        if options.log_placement:
            for line in placement_lines(self.placement(world), dtype):
                self._watch(Note(line))
        return partition

    def placement(self, world: World | None = None) -> PartitionPlan:
        """Return which rank computes what of the training net.

        Args:
            world: The ranks; those of the run by default.
        """
        if self._partition is not None:
            return self._partition.plans["train"]
        ranks = world if world is not None or self._ranks is None else self._ranks.world
        train, size = self.job.phases["train"], 1 if ranks is None else ranks.size
        rows = train.data[0].batch_size if train.data else size
        return partition_plan(train.graph, (), num_workers=size, num_rows=rows)

    @property
    def _own_graph(self) -> Graph:
        """The training net that this rank computes."""
        return self.job.phases["train"].graph if self._partition is None else self._partition.graphs["train"]

    def _make_state(self) -> TrainState:
        if isinstance(self._ranks, PartitionRanks):
            return PartitionedState(self.job, self.nets, self.updater, self._ranks)
        return TrainState(self.job, self.nets, self.updater)

    def _make_updater(self, slice_elements: int) -> Updater:
        parameters = trained(self._own_graph, self.nets["train"], self.job.solver.gradient_mult)
        if self._part is not None:
            return self._part.make_updater(self.job.solver, parameters, seed=self.seed)
        if isinstance(self._ranks, PartitionRanks):
            return self._ranks.make_updater(self.job.solver, parameters, slice_elements, seed=self.seed)
        return Updater(self.job.solver, parameters, seed=self.seed, slice_elements=slice_elements)

    def _make_program(self, options: TrainOptions, taps: Sequence[str]) -> StepProgram:
        net, ranks, num_stages = self.nets["train"], self._ranks, options.num_stages or 1
        if ranks is not None:
            for one in self.nets.values() if ranks.shares_tests else (net,):
                ranks.join_batch(one, self.job)
        layout, where, engine = self.updater.layout, self._where, self._engine
        timed = None if ranks is None else ranks.timed
        held = ranks.num_held if isinstance(ranks, ShardRanks | PipelineRanks) else 1
        stages = cut(net, 1 if isinstance(ranks, PipelineRanks) else num_stages)
        passes = NetPasses(net, stages, layout, engine=engine, where=where, timed=timed, num_held=held)
        if isinstance(ranks, PipelineRanks):
            return PipelineProgram(self.job, passes, self.updater, engine=engine, ranks=ranks)
        program = StepProgram(self.job, passes, self.updater, engine=engine, ranks=ranks, looks=self._looks)
        if ranks is not None:
            graph = self.job.phases["train"].graph
            ranks.exchange_slices(self.updater, graph, program.completing_stages())
        if options.memory is not None:
            limit_memory(
                self.job,
                self.nets,
                self.updater,
                limit=parse_bytes(options.memory),
                stages=program.stages,
                ranks=ranks,
                kept=taps,
            )
        return program

    def _open_loaders(self, config: LoaderConfig, data: Mapping[str, Given]) -> None:
        for name, phase in self.job.running.items():
            of_rank = self._of_rank(config, name)
            self._loaders[name] = PhaseLoader(name, phase, data.get(name, {}), of_rank)

    def _require_same_run(self, num_stages: int, numbers: Mapping[str, str]) -> None:
        if self._ranks is not None:
            num_batches = {name: loader.batches_per_epoch for name, loader in self._loaders.items()}
            common = run_in_common(self.job, seed=self.seed, num_stages=num_stages, num_batches=num_batches)
            self._ranks.require_same_start({**common, **numbers})

    def _go_on(self, checkpoint: Checkpoint | None, resume: Path | None, ledger: str | Path | None) -> None:
        """Go on where a checkpoint, or a solver's state of the Job's own format, was written."""
        if checkpoint:
            with reading(str(resume)):
                self._restore(checkpoint)
        elif resume:
            self._state.restore_foreign(resume)
            self._loaders["train"].skip(self.updater.iteration * self.job.solver.accumulate)
        part, ranks = self._part, self._ranks
        if part is not None and ranks is not None and part.begin(self._engine, self.updater, ranks.world):
            self._loaders["train"].skip(self.updater.iteration * self.job.solver.accumulate)
        self.iteration = self.updater.iteration
        notes = Path(ledger) if ledger is not None and self._is_writer else None
        self._ledger = Ledger(notes, self._writer.run, self.iteration)
        if self._ranks is not None:
            values = values_in_common(self.nets, self.updater, self._ranks.is_shared)
            self._ranks.require_same_start(values)

    def _reserved(self) -> AbstractContextManager[None]:
        return self._writer.reserved() if self._is_writer else nullcontext()

    def _finish(self, *, is_whole: bool) -> None:
        """Show and test what the end of the schedule asks for; a run that was stopped only ends."""
        schedule = self.job.schedule
        if not is_whole:
            self._end(Stopped(self.iteration, self._saved_at))
            return
        if schedule.display_at_end and schedule.is_due("display", self.iteration):
            loss, outputs = self._evaluator.last_loss(self.iteration)
            self.program.losses.append(loss)
            self._show(self.iteration, outputs, rate=None)
            require_finite_loss(self.job, self.iteration, "train", loss)
        if schedule.test_at_end and schedule.is_due("test", self.iteration):
            for event in self.test():
                losses = (sum(event.outputs[name]) for name in event.weights if name in event.outputs)
                require_finite_loss(self.job, self.iteration, event.phase, sum(losses))
        self._end()

    def load_solver_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what an updater's ``state_dict`` returned.

        Raises:
            UsageError: It is of other parameters or of another rule.
        """
        self.updater.load_state_dict(state)
        self.iteration = self.updater.iteration

    def stop(self, status: int = INTERRUPTED) -> None:
        """Ask the run to write a checkpoint and stop after the present iteration, on all ranks."""
        if self._ranks is None:
            super().stop(status)
        else:
            self._ranks.stop = max(self._ranks.stop, status)

    def test(self) -> list[Evaluated]:
        """Run every test net over its batches, tell and return the means of their outputs."""
        return self._evaluate_phases(self.job.tests)

    def _evaluate_phases(self, phases: Mapping[str, Phase]) -> list[Evaluated]:
        self._average_states()
        events = []
        for name in phases:
            event = self._evaluator.evaluate(name, self.iteration)
            self.history.show(event)
            self._watch(event)
            events.append(event)
        return events

    def whole_net(self) -> TorchNet:
        """Return the training net; where it is cut across ranks, a whole one, for which all must ask."""
        if isinstance(self._ranks, PartitionRanks):
            return whole_net(self.job, self._ranks)
        return self.nets["train"]

    def close(self) -> None:
        """Let go of the data."""
        if isinstance(self._ranks, ShardRanks):  # its lane has set those of MKL in all threads
            torch.set_num_threads(self._num_threads)
        for net in self.nets.values():
            net.guard(None)
            net.set_kernels(PLAIN)
            if net.draws is not None:
                net.draws.release()
        for loader in self._loaders.values():
            loader.close()

    def _average_states(self) -> None:
        if self._ranks is not None:
            self.program.wait()
            self._ranks.average_states(self.nets["train"])

    def _end(self, *events: Stopped) -> None:
        self.program.wait()
        self._average_states()
        self._writer.wait()
        for event in events:
            self._watch(event)
        lanes = self._engine.statistics()
        work: tuple[RankWork, ...] = ()
        if self._ranks is not None and self._num_samples:
            graph, threads = self.job.phases["train"].graph, lanes["input"].mean_running
            work = self._ranks.gather_work(graph, self._num_samples, threads)
        self._watch(Ended(self.iteration, lanes, work, self._ledger.end(self._exchange_s)))

    def _restore(self, checkpoint: Checkpoint) -> None:
        self._state.restore(checkpoint)
        self.program.losses.extend(checkpoint.state["losses"])
        self.history.restore(checkpoint.state["history"])
        sums = {name: torch.from_numpy(array) for name, array in nested(checkpoint.arrays, "display")}
        self._since_display.restore(checkpoint.state.get("displayed batches", 0), sums)
        for name, loader in self._loaders.items():
            loader.restore(checkpoint.state["feeds"][name])
        if self._ranks is not None:
            rows = {int(rank): row for rank, row in nested(checkpoint.arrays, "residual")}
            self._ranks.restore_residuals(rows)

    @property
    def is_over(self) -> bool:
        """True if all updates of the schedule are done."""
        return self.iteration >= self.job.schedule.max_iterations

    @property
    def _is_save_due(self) -> bool:
        due = self.job.schedule.is_due("checkpoint", self.iteration, self.job.checkpoints.interval)
        return due or (self._is_time_to_save if self._ranks is None else self._saves)

    @property
    def _is_time_to_save(self) -> bool:
        return self._save_every_s is not None and perf_counter() - self._saved_s >= self._save_every_s

    def _before_step(self) -> None:
        """Evaluate what is due before the next update."""
        with self._ledger.spending("test"):
            self._evaluate_due()

    def _evaluate_due(self) -> None:
        schedule = self.job.schedule
        validation = {name: phase for name, phase in self.job.phases.items() if name == "validate"}
        if schedule.is_due("validate", self.iteration):
            self._evaluate_phases(validation)
        if schedule.is_due("test", self.iteration) and (self.iteration or schedule.test_at_start):
            self.test()

    def _step(self) -> None:
        """Push one update, and tell its loss when that is there: the update itself may come later."""
        step = self.iteration
        loader, program = self._loaders["train"], self.program
        release_threads()  # the caller's, who may have computed something between two steps
        if self._ranks is not None and not self._num_samples:
            self._ranks.world.occupancy.restart()
        pushed = []
        self._ledger.begin_update()
        if self._ranks is not None:
            self._ranks.saves = self._is_writer and self._is_time_to_save
        shards = None if self._ranks is None else self._ranks.shards
        for number in range(self.job.solver.accumulate if shards is None else shards.count):
            began_s = perf_counter()
            batch, variables = loader.take(program.idle_since)
            self._ledger.spend("data", max(0.0, perf_counter() - max(began_s, program.idle_since())))
            first = loader.offset + (number * loader.batch_size if shards is None else 0)
            part = Part(number, batch, variables, first, loader.samples, shards is None and number > 0)
            pushed.append(program.push(step, part))
            self._num_samples += part.samples
        looked = program.push_looks(step)
        program.push_updates(step)
        self.iteration += 1
        result = pushed[-1].result()
        assert isinstance(result, StepResult)
        super().stop(result.stop)
        if self._part is not None:
            self.stop(self._part.agree_to_stop(result.stop))
        self._saves = result.saves
        self.history.step(step, result.loss, result.rate)
        self._watch(Updated(step, result.loss, result.rate, OutputElements(result.outputs)))
        if looked is not None:
            looked.result()
        for look in self._looks:
            if seen := look.event(step):
                self._watch(seen)
        if self.job.schedule.display_means:
            self._since_display.add(result.outputs)
        if self.job.schedule.is_due("display", step):
            outputs = self._since_display.take() if self.job.schedule.display_means else result.outputs
            self._show(step, outputs, rate=result.rate)

    def _show(self, iteration: int, outputs: Mapping[str, torch.Tensor], *, rate: float | None) -> None:
        losses = self.program.losses
        records = self._loaders["train"].batch_size * self.job.solver.accumulate
        self._watch(
            Shown(
                iteration,
                sum(losses) / len(losses),
                rate,
                {name: elements(tensor) for name, tensor in outputs.items()},
                self.job.phases["train"].losses,
                self._speed.since_last(iteration, records),
            )
        )

    def _settle(self) -> None:
        """Wait for the updates on their way."""
        self.program.wait()
        require_finite_parameters(self.job, self.nets["train"], self.iteration)

    def _save(self) -> None:
        with self._ledger.spending("checkpoint"):
            self._write()
        if self._is_writer:
            self._ledger.save(self.iteration, self._exchange_s)

    @property
    def _exchange_s(self) -> float:
        """Seconds since the first update in which the link was busy and nothing was computed."""
        return 0.0 if self._ranks is None else self._ranks.world.occupancy.exposed_s

    def _write(self) -> None:
        self._settle()
        self._saved_s = perf_counter()
        self._average_states()
        self.updater.fetch()
        content = {
            **self._content(),
            "job": self.job.name,
            "iteration": self.iteration,
            "seed": self.seed,
            "losses": list(self.program.losses),
            "history": self.history.state(),
            "feeds": {name: loader.state() for name, loader in self._loaders.items()},
        }
        if isinstance(self._ranks, ShardRanks):
            content["same bits"] = self._ranks.promise()
        if isinstance(self._kernels, TriedKernels):
            choices = dict(self._kernels.choices)
            world = None if self._ranks is None else self._ranks.world
            content["kernels"] = [choices] if world is None else world.gather(choices, "kernels")
        content["displayed batches"], sums = self._since_display.state()
        arrays = {f"display:{name}": to_array(tensor) for name, tensor in sums.items()}
        if self._ranks is not None:
            self._ranks.collect_state(self.updater)
            arrays |= {f"residual:{rank}": row for rank, row in self._ranks.residuals().items()}
        if not self._is_writer:
            return
        capture = partial(self._state.capture, content, arrays)
        files = self._writer.save(self.iteration, capture, self._state.as_source)
        self._watch(Saved(self.iteration, files))

    @property
    def _is_writer(self) -> bool:
        """True if this process writes the checkpoints, for all ranks."""
        return self._ranks is None or self._ranks.world.is_first

    def _of_rank(self, config: LoaderConfig, name: str) -> LoaderConfig:
        """Return how this rank loads the batches of a phase."""
        if self._ranks is None:
            return config
        if name == "train" and self._ranks.shards is not None:
            return replace(config, turns=self._ranks.shards)
        if isinstance(self._ranks, PipelineRanks):  # each stage takes what it reads of every batch
            return config
        if name == "train" or self._ranks.shares_tests:
            groups = (0, 1) if self._part is None else self._part.groups
            return replace(config, share=(self._ranks.world.rank, self._ranks.world.size), groups=groups)
        turns = turns_of(self.job.phases[name], self.nets[name], self._ranks.world)
        return replace(config, turns=turns)


def _exchange_with(
    world: World | None, options: TrainOptions, engine: Engine, partition: Partition | None
) -> RankExchange | None:
    """Return what is exchanged with other ranks; None for a run of one."""
    if world is None:
        return None
    if partition is not None:
        of_partition = PartitionRanks if partition.micro_batches is None else PipelineRanks
        return of_partition(partition, world, options, engine=engine)
    kind = RankExchange if options.same_bits is None else ShardRanks
    return kind(world, options, engine=engine)


def _prepare_thread(engine: Engine, *, exchanges: bool, threads: int | None) -> int:
    """Prepare the thread that computes; return how many threads torch had.

    Args:
        engine: Whose.
        exchanges: Whether other threads exchange what it computes.
        threads: How many threads share its sums; as many as torch has by default.
    """
    before = torch.get_num_threads()
    # a thread's first matrix product asks MKL, not torch, for the number of threads, and rounds by it
    engine.push(partial(torch.set_num_threads, threads or before), lane=COMPUTE).result()
    if exchanges:
        engine.push(let_others_interrupt, lane=COMPUTE).result()
    return int(before)
