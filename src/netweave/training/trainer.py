"""The loop: Caffe's order of things (``Solver::Step`` and ``Solver::Solve`` at 1.0)."""

from __future__ import annotations

import math
import secrets
from collections import deque
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from netweave.backends.torch.device import find_device
from netweave.backends.torch.finite import first_not_finite
from netweave.engine import Variable
from netweave.errors import RunError, UnsupportedError, UsageError
from netweave.optim import Updater
from netweave.training.checkpoint import read_checkpoint
from netweave.training.events import Evaluated, Saved, Shown, Stopped
from netweave.training.feeds import Feed, Feeding
from netweave.training.history import History
from netweave.training.keeping import Keeper, Running
from netweave.training.means import averaged, elements
from netweave.training.nets import make_nets, trained
from netweave.training.team import dismiss_team

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from netweave.backends.torch import TorchNet
    from netweave.engine import Engine
    from netweave.job import Job
    from netweave.training.checkpoint import Checkpoint
    from netweave.training.events import Step, Watch
    from netweave.training.feeds import Given

DTYPES: dict[torch.dtype, type[np.floating[Any]]] = {torch.float32: np.float32, torch.float64: np.float64}
"""The types of numbers to train in."""

PRECISIONS = ("f32", "bf16")
"""What convolutions and matrix products may be computed in."""

KEPT = 3
"""So many of Netweave's own checkpoints are kept where nobody says."""


class Trainer:
    """One run of a Job on one device.

    What is drawn in an iteration depends on the seed and its number only, so that a run can go on
    anywhere; torch's own generator is seeded anew for each.

    Args:
        job: What to do.
        engine: Where batches are made and checkpoints are written.
        data: By phase, arrays of all records by input, instead of what the Job names.
        device: Where to compute.
        dtype: Type of the numbers, ``torch.float32`` or ``torch.float64``.
        precision: ``bf16`` lets torch compute in bfloat16 what bears it (``torch.autocast``); else ``f32``.
        threads: Of decoding; None to find the number by itself.
        keep: So many of Netweave's own checkpoints are kept.
        resume: Go on where this checkpoint was written, or Caffe's ``.solverstate``.
        seed: Instead of the Job's; a run that goes on keeps its own.
        nets: Nets that are there already, by phase, instead of fresh ones.
        watch: Told what happens.
        step: Told of each update.

    Attributes:
        job: The Job.
        nets: The net of each phase, by name; they share their arrays.
        updater: Rule, policy and their state.
        seed: That of the run that goes on, the Job's, or a fresh one.
        history: The run's curves, from its beginning.

    Raises:
        UsageError: A rule, policy, filler or transform cannot be made, or an input is not fed.
        UnsupportedError: The Job wants an algorithm or a cluster that there is not.
        SourceError: Data, weights or a checkpoint cannot be read, or do not fit.
    """

    def __init__(
        self,
        job: Job,
        *,
        engine: Engine,
        data: Mapping[str, Given] | None = None,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        precision: str = "f32",
        threads: int | None = None,
        keep: int = KEPT,
        resume: Path | None = None,
        seed: int | None = None,
        nets: Mapping[str, TorchNet] | None = None,
        watch: Watch = lambda event: None,
        step: Step | None = None,
    ) -> None:
        _check(job, dtype, precision)
        self.job = job
        checkpoint = read_checkpoint(resume) if resume and ".solverstate" not in resume.name else None
        wanted = job.seed if seed is None else seed
        fresh = secrets.randbits(31) if wanted is None else wanted
        self.seed: int = checkpoint.state["seed"] if checkpoint else fresh
        self._device = find_device(device)
        self._mixed = precision == "bf16"
        self._engine = engine
        self.history = History()
        self._watch = watch
        self._told_step = step
        self._stop = False
        self._not_finite: str | None = None
        # a thread's first matrix product asks MKL, not torch, for the number of threads, and rounds by it
        engine.push(partial(torch.set_num_threads, torch.get_num_threads()), lane="compute").result()
        self.nets = dict(nets or {}) or make_nets(
            job.phases,
            weights=job.checkpoints.weights,
            initializer=job.initializer,
            seed=self.seed,
            device=self._device,
            dtype=dtype,
        )
        train = job.phases["train"]
        self.updater = Updater(job.solver, trained(train.graph, self.nets["train"]), seed=self.seed)
        self._running = Running(job, self.nets, self.updater)
        self._keeper = Keeper(self._running, engine, keep=keep)
        self._losses: deque[float] = deque(maxlen=max(1, job.schedule.average_loss))
        self._saved_at: int | None = None
        self._shown: tuple[int, float] | None = None
        how = Feeding(engine, self.seed, DTYPES[dtype], threads)
        self._arrays = Variable("arrays and gradients")
        for net in self.nets.values():
            net.guard(partial(engine.wait_for, self._arrays))
        self._feeds: dict[str, Feed] = {}
        try:
            for name, phase in job.phases.items():
                self._feeds[name] = Feed(name, phase, (data or {}).get(name, {}), how)
            if checkpoint:
                self._restore(checkpoint)
            elif resume:
                self._restore_caffe(resume)
        except BaseException:
            self.close()
            raise

    @property
    def iteration(self) -> int:
        """Updates done."""
        return self.updater.iteration

    def run(self) -> bool:
        """Train to the end; say whether it was reached, or the run was stopped.

        Raises:
            RunError: The loss is no number any more, or a checkpoint cannot be written.
            SourceError: A record cannot be read.
        """
        job, schedule = self.job, self.job.schedule
        finished = self._steps()
        if job.checkpoints.at_end and self._saved_at != self.iteration:
            self._save()
        if not finished:
            self._keeper.wait()
            self._watch(Stopped(self.iteration))
            return False
        if schedule.display_at_end and _due(self.iteration, schedule.display_interval):
            loss, outputs = self._forward("train", 0)
            self._losses.append(loss)
            self._show(outputs, rate=None)
        if _due(self.iteration, schedule.test_interval):
            self.test()
        self._keeper.wait()
        return True

    def stop(self) -> None:
        """Ask the run to write a checkpoint and stop after the present iteration."""
        self._stop = True

    def test(self) -> None:
        """Run every test net over its batches, and tell the means of their outputs."""
        for name, phase in self.job.tests.items():
            means = averaged(self._forward(name, 0)[1] for _ in range(phase.num_batches or 1))
            event = Evaluated(self.iteration, name, means, phase.losses)
            self.history.show(event)
            self._watch(event)

    def close(self) -> None:
        """Let go of the data."""
        for net in self.nets.values():
            net.guard(None)
        for feed in self._feeds.values():
            feed.close()

    def _restore(self, checkpoint: Checkpoint) -> None:
        self._running.restore(checkpoint)
        self._losses.extend(checkpoint.state["losses"])
        if "history" in checkpoint.state:  # those of earlier versions have none
            self.history.restore(checkpoint.state["history"])
        for name, feed in self._feeds.items():
            feed.restore(checkpoint.state["feeds"][name])

    def _restore_caffe(self, path: Path) -> None:
        self._running.restore_caffe(path)
        self._feeds["train"].skip(self.iteration * self.job.solver.accumulate)

    def _steps(self) -> bool:
        schedule, checkpoints = self.job.schedule, self.job.checkpoints
        while self.iteration < schedule.max_iterations:
            if self._stop:
                return False
            if _due(self.iteration, schedule.test_interval) and (self.iteration or schedule.test_at_start):
                self.test()
            self._step()
            if _due(self.iteration, checkpoints.interval):
                self._save()
        return True

    def _step(self) -> None:
        """Make one update."""
        self.nets["train"].zero_grad()
        total = 0.0
        outputs: dict[str, torch.Tensor] = {}
        for part in range(self.job.solver.accumulate):
            loss, outputs = self._forward("train", part, backward=True)
            total += loss
        total /= self.job.solver.accumulate
        if not math.isfinite(total):
            where = f": {self._not_finite}" if self._not_finite else ""
            raise RunError(
                f"{self.job.name}: the loss is {total} in iteration {self.iteration}{where}; nothing is "
                "written from here on. Take a lower learning rate, or clip gradients, and go on from an "
                "earlier checkpoint"
            )
        self._losses.append(total)
        smoothed = sum(self._losses) / len(self._losses)
        shown = _due(self.iteration, self.job.schedule.display_interval)
        before = self.iteration
        update = partial(self.updater.step, smoothed)
        self._engine.push(update, writes=[self._arrays], name=f"update {before}").result()
        self.history.step(self.iteration, smoothed, self.updater.rate)
        if self._told_step:
            self._told_step(self.iteration, smoothed, self.updater.rate)
        if shown:
            self._show(outputs, rate=self.updater.rate, iteration=before)

    def _forward(
        self, phase: str, part: int, *, backward: bool = False
    ) -> tuple[float, dict[str, torch.Tensor]]:
        """Run the net of a phase on its next batch, on the engine; return the objective and the outputs."""
        batch, variables = self._feeds[phase].take()
        dismiss_team()  # the caller's, who may have computed something between two steps

        def compute() -> tuple[float, dict[str, torch.Tensor]]:
            with torch.set_grad_enabled(backward):
                return self._compute(phase, part, batch)

        name = f"{phase} {self.iteration}"
        writes = [self._arrays]
        return self._engine.push(compute, variables, writes, lane="compute", name=name).result()

    def _compute(
        self, phase: str, part: int, batch: Mapping[str, torch.Tensor]
    ) -> tuple[float, dict[str, torch.Tensor]]:
        net, losses = self.nets[phase].train(phase == "train"), self.job.phases[phase].losses
        _seed_torch(self.seed, self.iteration, part)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._mixed):
            found = net(**{name: tensor.to(self._device) for name, tensor in batch.items()})
        terms = [weight * found[name].sum() for name, weight in losses.items()]
        loss = torch.stack(terms).sum() if terms else torch.zeros(())
        if torch.is_grad_enabled():
            loss.backward()
            if not math.isfinite(float(loss.detach())):
                self._not_finite = first_not_finite(net, self.job.phases[phase].graph, batch)
        names = [value.name or "" for value in self.job.phases[phase].graph.outputs]
        return float(loss.detach()), {name: found[name].detach() for name in names}

    def _show(
        self, outputs: Mapping[str, torch.Tensor], *, rate: float | None, iteration: int | None = None
    ) -> None:
        at = self.iteration if iteration is None else iteration
        self._watch(
            Shown(
                at,
                sum(self._losses) / len(self._losses),
                rate,
                {name: elements(tensor) for name, tensor in outputs.items()},
                self.job.phases["train"].losses,
                self._speed(at),
            )
        )

    def _speed(self, iteration: int) -> float | None:
        """Return the records per second since the last call."""
        now, last = perf_counter(), self._shown
        self._shown = (iteration, now)
        if last is None or iteration <= last[0]:
            return None
        records = (iteration - last[0]) * self._feeds["train"].batch_size * self.job.solver.accumulate
        return records / (now - last[1])

    def _save(self) -> None:
        files = self._keeper.save(self._state())
        self._saved_at = self.iteration
        self._watch(Saved(self.iteration, files))

    def _state(self) -> dict[str, Any]:
        """Return what a checkpoint holds beside the arrays."""
        return {
            "job": self.job.name,
            "iteration": self.iteration,
            "seed": self.seed,
            "losses": list(self._losses),
            "history": self.history.state(),
            "feeds": {name: feed.state() for name, feed in self._feeds.items()},
        }


def _check(job: Job, dtype: torch.dtype, precision: str) -> None:
    if job.solver.kind.startswith("singa."):
        raise UnsupportedError(f"{job.name}: SINGA's jobs are read, but cannot be trained yet")
    if job.algorithm != "bp":
        raise UnsupportedError(f"{job.name}: the algorithm {job.algorithm!r} is not there yet, expected 'bp'")
    if job.cluster.num_workers > 1 or job.cluster.num_servers:
        raise UnsupportedError(f"{job.name}: several devices are not there yet, expected one worker")
    if not job.phases["train"].losses:
        raise UsageError(f"{job.name}: the training net has no loss, so there is nothing to learn")
    if precision not in PRECISIONS:
        raise UsageError(f"precision is {precision!r}, expected {' or '.join(PRECISIONS)}")
    if dtype not in DTYPES:
        raise UsageError(f"cannot train in {dtype}, expected {', '.join(map(str, DTYPES))}")


def _due(iteration: int, interval: int) -> bool:
    return interval > 0 and iteration % interval == 0


def _seed_torch(seed: int, iteration: int, part: int) -> None:
    """Seed torch's generators for what one forward pass draws."""
    words = np.random.SeedSequence([seed, iteration, part]).generate_state(2)
    torch.manual_seed(int(words[0]) << 31 | int(words[1]) >> 1)
