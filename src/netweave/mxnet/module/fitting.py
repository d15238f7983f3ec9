"""The fit of a module: batches of an iterator, epoch by epoch, and its checkpoints."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from netweave.errors import RunError, UnsupportedError, UsageError
from netweave.files.library_errors import reading
from netweave.job import Checkpoints
from netweave.mxnet.io.batch import restore_to, state_of
from netweave.mxnet.ndarray import random
from netweave.runtime.engine import ThreadedEngine
from netweave.training.checkpoint_file import (
    RESUME_IF_ANY,
    Checkpoint,
    checkpoint_path,
    nested,
    read_checkpoint,
)
from netweave.training.checkpoint_writer import KEPT, CheckpointWriter
from netweave.training.loop import FitCheckpoints, Loop, stopping
from netweave.training.net_passes import choose_run_name


class BatchEndParam(NamedTuple):
    """The argument of a callback at the end of a batch."""

    epoch: int
    nbatch: int
    eval_metric: Any
    locals: Any


def call(callbacks: Any, *args: Any) -> None:
    """Call a callback, or several, or none."""
    for one in callbacks if isinstance(callbacks, list | tuple) else [callbacks]:
        if one is not None:
            one(*args)


@dataclass(frozen=True, slots=True, kw_only=True)
class FitSettings:
    """Arguments of a fit; see ``BaseModule.fit``."""

    train_data: Any
    eval_data: Any
    eval_metric: Any
    validation_metric: Any
    epoch_end_callback: Any
    batch_end_callback: Any
    eval_end_callback: Any
    eval_batch_end_callback: Any
    begin_epoch: int
    num_epoch: int
    monitor: Any


class ModuleFit(Loop):
    """A fit of a module by its public methods, some of which subclasses override.

    Args:
        module: The module, with arrays and an optimizer.
        settings: How it is trained.
        checkpoints: Which checkpoints are written.
        writer: Writes them; None if there are none.
    """

    def __init__(
        self,
        module: Any,
        settings: FitSettings,
        checkpoints: Checkpoints,
        writer: CheckpointWriter | None = None,
    ) -> None:
        super().__init__(checkpoints)
        self._module, self._settings, self._writer = module, settings, writer
        self._epoch, self._batch = settings.begin_epoch, 0
        self._batches: Iterator[Any] = iter(())
        self._following: Any = None
        self._source: Any = None
        self._began_s = 0.0

    @property
    def is_over(self) -> bool:
        """True if all epochs are over."""
        return self._epoch >= self._settings.num_epoch

    @property
    def _is_save_due(self) -> bool:
        interval = self._checkpoints.interval
        return self._writer is not None and (self.iteration % interval if interval else self._batch) == 0

    def _reserved(self) -> AbstractContextManager[None]:
        return nullcontext() if self._writer is None else self._writer.reserved()

    def _before_step(self) -> None:
        if not self._batch:
            self._settings.eval_metric.reset()
            self._module._begin_epoch(self._settings.train_data, self._epoch)
            self._begin_batches()

    def _begin_batches(self, skipped: int = 0) -> None:
        """Begin an epoch of the iterator, behind some batches."""
        data = self._settings.train_data
        self._began_s = time.perf_counter()
        self._source = self._source_now()
        self._batches = iter(data)
        for _ in range(skipped):
            next(self._batches, None)
        self._following = next(self._batches, None)
        if self._following is None:
            raise UsageError("the training data have no batches left; call reset() before fit")

    def _step(self) -> None:
        module, settings = self._module, self._settings
        metric, monitor, data_batch = settings.eval_metric, settings.monitor, self._following
        if monitor is not None:
            monitor.tic()
        module.forward_backward(data_batch)
        module.update()
        if isinstance(data_batch, list):
            module.update_metric(metric, [one.label for one in data_batch], pre_sliced=True)
        else:
            module.update_metric(metric, data_batch.label)
        self._following = next(self._batches, None)
        if self._following is not None:
            module.prepare(self._following)
        if monitor is not None:
            monitor.toc_print()
        is_last = self._following is None
        scores = metric.get_global_name_value() if is_last else []
        own = {"self": module, "train_data": settings.train_data, "data_batch": data_batch}
        own |= {"epoch": self._epoch, "nbatch": self._batch, "eval_metric": metric, "monitor": monitor}
        call(settings.batch_end_callback, BatchEndParam(self._epoch, self._batch, metric, own))
        self.iteration += 1
        self._batch += 1
        if is_last:
            self._end_epoch(scores)

    def _end_epoch(self, scores: list[tuple[str, float]]) -> None:
        module, settings, epoch = self._module, self._settings, self._epoch
        for name, value in scores:
            module.logger.info("Epoch[%d] Train-%s=%f", epoch, name, value)
        module.logger.info("Epoch[%d] Time cost=%.3f", epoch, time.perf_counter() - self._began_s)
        args, states = module.get_params()
        module.set_params(args, states)
        call(settings.epoch_end_callback, epoch, module.symbol, args, states)
        if settings.eval_data is not None:
            validated = module.score(
                settings.eval_data,
                settings.validation_metric,
                score_end_callback=settings.eval_end_callback,
                batch_end_callback=settings.eval_batch_end_callback,
                epoch=epoch,
            )
            for name, value in validated:
                module.logger.info("Epoch[%d] Validation-%s=%f", epoch, name, value)
        settings.train_data.reset()
        self._epoch, self._batch = epoch + 1, 0

    def _save(self) -> None:
        if self._writer is not None:
            self._writer.save(self.iteration, self._capture)

    def _finish(self, *, is_whole: bool) -> None:
        if self._writer is not None:
            self._writer.wait()

    def _source_now(self) -> dict[str, Any]:
        """Return what the batches of an epoch that begins depend on."""
        data = self._settings.train_data
        return {"state": state_of(data), "generator": random.generator().bit_generator.state}

    def _capture(self) -> Checkpoint:
        values, arrays = self._module.fit_state()
        for name, array in nested(arrays, "param"):
            if not np.isfinite(array).all():
                raise RunError(
                    f"update {self.iteration} left nan or inf in the parameter {name!r}; nothing is written "
                    "from here on. Take a lower learning rate, or clip gradients, and resume from an earlier "
                    "checkpoint"
                )
        arrays |= {f"generator:{place}": state for place, state in _torch_generators().items()}
        state = {
            "iteration": self.iteration,
            "epoch": self._epoch,
            "batch": self._batch,
            "source": self._source if self._batch else self._source_now(),
            "metric": self._settings.eval_metric.state(),
            "generator": random.generator().bit_generator.state,
            "module": values,
        }
        return Checkpoint({"module fit": state}, arrays)

    def restore(self, path: Path, checkpoint: Checkpoint) -> None:
        """Go on where a checkpoint was written.

        Args:
            path: Its file.
            checkpoint: Its content.

        Raises:
            ReadError: It holds what no fit writes.
            UsageError: It is of another kind of run, or of another net or optimizer.
        """
        state = checkpoint.state.get("module fit")
        if state is None:
            raise UsageError(f"{path}: is not a checkpoint of Module.fit")
        with reading(str(path)):
            self._module.restore_fit_state(state["module"], checkpoint.arrays, str(path))
            self.iteration, self._epoch, self._batch = (
                int(state[key]) for key in ("iteration", "epoch", "batch")
            )
            restore_to(self._settings.train_data, state["source"]["state"])
            random.generator().bit_generator.state = state["source"]["generator"]
            self._settings.eval_metric.restore(state["metric"])
            if self._batch:
                self._begin_batches(self._batch)
            random.generator().bit_generator.state = state["generator"]
            _restore_torch_generators(dict(nested(checkpoint.arrays, "generator")))
        self._saved_at = self.iteration


def run_fit(module: Any, settings: FitSettings, checkpoints: FitCheckpoints) -> None:
    """Run the fit of a module that is ready.

    Raises:
        UnsupportedError: The module cannot write checkpoints of a fit, or resume from them.
        UsageError: There is no checkpoint to resume from, or it is of another run.
        ReadError: It is damaged.
    """
    if checkpoints.prefix is None and not checkpoints.resume:
        ModuleFit(module, settings, checkpoints.settings()).run()
        return
    if not module.has_fit_state:
        raise UnsupportedError(
            f"a {type(module).__name__} cannot resume a fit bit for bit; leave checkpoint_prefix and resume "
            "out, and save its arrays with mx.callback.module_checkpoint"
        )
    checkpoints = _of_worker(checkpoints, module.kvstore)
    found = _find(checkpoints, module.kvstore)
    with ThreadedEngine() as engine:
        writer = None
        if checkpoints.prefix is not None:
            run = found[1].origin.run if found else ""
            writer = CheckpointWriter(
                checkpoints.settings(),
                engine,
                keep=checkpoints.keep or KEPT,
                run=run or choose_run_name(None),
            )
        fit = ModuleFit(module, settings, checkpoints.settings(), writer)
        if found is not None:
            fit.restore(*found)
        with stopping(fit):
            fit.run()


def _of_worker(checkpoints: FitCheckpoints, store: Any) -> FitCheckpoints:
    """Return the checkpoints of this worker: each has its own records and draws."""
    if store is None or store.num_workers == 1 or checkpoints.prefix is None:
        return checkpoints
    return replace(checkpoints, prefix=f"{checkpoints.prefix}-worker{store.rank}")


def _find(checkpoints: FitCheckpoints, store: Any) -> tuple[Path, Checkpoint] | None:
    """Return the checkpoint to resume from: of several workers, one of the last update that all have."""
    found = checkpoints.find()
    if checkpoints.resume not in {True, RESUME_IF_ANY} or store is None:
        return found
    iteration = int(found[1].state["module fit"]["iteration"]) if found else 0
    oldest = min(store.store.gather(iteration, "latest checkpoints"))
    if oldest in {0, iteration}:
        return found if oldest else None
    path = checkpoint_path(str(checkpoints.prefix), oldest)
    return path, read_checkpoint(path)


def _torch_generators() -> dict[str, np.ndarray]:
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_initialized():
        states |= {str(number): one for number, one in enumerate(torch.cuda.get_rng_state_all())}
    return {place: state.numpy() for place, state in states.items()}


def _restore_torch_generators(states: dict[str, np.ndarray]) -> None:
    for place, state in states.items():
        tensor = torch.from_numpy(np.array(state))
        if place == "cpu":
            torch.set_rng_state(tensor)
        else:
            torch.cuda.set_rng_state(tensor, int(place))
