"""Forward and backward of one net on one device as tasks of a lane, stage by stage.

Every slice of the parameters is a variable of the engine, and so is its gradient. Forward of a stage reads
its slices, backward writes their gradients: what changes a slice or uses a gradient names the same variables,
and the engine keeps the order (decision 0136).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from netweave.errors import UsageError
from netweave.runtime.backends.torch.stages import run_backward, run_stage
from netweave.runtime.engine import Variable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from netweave.runtime.backends.torch import TorchNet
    from netweave.runtime.backends.torch.stages import Stage, StagePass
    from netweave.runtime.engine import Completion, Engine
    from netweave.training.optim.layout import FlatLayout

T = TypeVar("T")

COMPUTE = "compute"


@dataclass(frozen=True, slots=True)
class Part:
    """The micro-batch of one forward and backward pass.

    Attributes:
        number: Of the pass in its update, from 0.
        inputs: Tensors by input; those of a loader, which are used again.
        variables: What tasks that read them must name.
        first: Number of the first sample in the whole batch of the update.
        samples: Number of samples.
    """

    number: int
    inputs: Mapping[str, torch.Tensor]
    variables: Sequence[Variable]
    first: int
    samples: int

    def split(self, bounds: Sequence[tuple[int, int]]) -> list[Part]:
        """Return the parts of this batch for several devices, as views.

        Args:
            bounds: The first sample of each part, and the one after its last.
        """
        if len(bounds) == 1:
            return [self]
        return [
            replace(
                self,
                inputs={name: tensor[start:stop] for name, tensor in self.inputs.items()},
                first=self.first + start,
                samples=stop - start,
            )
            for start, stop in bounds
        ]


@dataclass(frozen=True, slots=True)
class Where:
    """Device and mode in which a net computes.

    Attributes:
        device: The device.
        mixed: Whether torch may compute in bfloat16 what bears it.
        seed: Of what is drawn.
        update_lane: Lane on which slices are updated; another one than ``compute`` has one thread.
        lane: Lane on which passes are computed.
        number: Of the device among those of this process; None where there is one.
    """

    device: torch.device
    mixed: bool
    seed: int
    update_lane: str = COMPUTE
    lane: str = COMPUTE
    number: int | None = None

    def __str__(self) -> str:
        return str(self.device) if self.device.index is not None else f"{self.device}:{self.number or 0}"


class NetPasses:
    """The forward and backward passes of one net.

    Args:
        net: The net.
        stages: Its stages.
        layout: The slices of its trained parameters.
        engine: Where tasks run.
        where: Where and how they compute.
        timed: Called with each task's function in its place, to measure it.
        skipped: Called with the error where a task is not done any more, as an earlier one failed.

    Attributes:
        net: The net.
        stages: The stages.
        where: Where and how they compute.
        engine: Where tasks run.
        parameters: A variable for each slice.
        gradients: A variable for the gradient of each slice.
        state: The variable of what forward passes change: moving statistics, and what nodes keep.
        ended_s: When the last backward of a stage ended, by ``perf_counter``.
    """

    def __init__(
        self,
        net: TorchNet,
        stages: Sequence[Stage],
        layout: FlatLayout,
        *,
        engine: Engine,
        where: Where,
        timed: Callable[[Callable[[], Any]], Any] | None = None,
        skipped: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.net, self.stages, self.where = net, tuple(stages), where
        self._of_device = "" if where.number is None else f" on {where}"
        slices = range(len(layout.slices))
        self.parameters = [Variable(f"slice {number}{self._of_device}") for number in slices]
        self.gradients = [Variable(f"gradient of slice {number}{self._of_device}") for number in slices]
        self.state = Variable(f"statistics{self._of_device}")
        self.ended_s = 0.0
        self.engine, self._timed, self._skipped = engine, timed, skipped
        self._activations = [
            Variable(f"activations of stage {stage.index}{self._of_device}") for stage in stages
        ]
        of_key = {key: layout.slices_of(key) for key in layout.offsets}
        self._read = [_numbers(of_key, stage.reads) for stage in stages]
        self._completed = [_numbers(of_key, stage.completes) for stage in stages]
        self._tensors = [[net.store[key].tensor for key in stage.completes] for stage in stages]
        self._passes: list[StagePass | None] = [None] * len(stages)
        self._above: list[torch.Tensor | None] = []

    @property
    def variables(self) -> list[Variable]:
        """All that tasks of the passes change."""
        return [*self.parameters, *self.gradients, *self._activations, self.state]

    def stages_of(self, number: int) -> list[int]:
        """Return the stages whose backward adds to the gradient of a slice."""
        return [stage for stage, numbers in enumerate(self._completed) if number in numbers]

    def push_forward(
        self,
        step: int,
        part: Part,
        finish: Callable[[StagePass], T],
        *,
        writes: Sequence[Variable] = (),
        suffix: str = "",
    ) -> Completion[T]:
        """Push forward of a batch.

        Args:
            step: Updates done before.
            part: The batch.
            finish: Makes the outputs of the last stage one objective, in its place; what it returns is there
                when the last forward is done.
            writes: What ``finish`` changes.
            suffix: Of the tasks' names.
        """
        completion: Completion[Any] | None = None
        for stage in self.stages:
            before = self._activations[stage.index - 1 : stage.index] if stage.index else []
            batch = part.variables if stage.takes_batch else ()
            is_last = stage is self.stages[-1]
            completion = self.engine.push(
                self._measured(partial(self._forward, step, part, stage, finish if is_last else None)),
                [*before, *batch, *(self.parameters[number] for number in self._read[stage.index])],
                [
                    self._activations[stage.index],
                    self.state,
                    *(self.gradients[number] for number in self._completed[stage.index]),
                    *(writes if is_last else ()),
                ],
                lane=self.where.lane,
                name=self._name("forward", step, stage) + suffix,
                skipped=self._skipped,
            )
        assert completion is not None
        return completion

    def push_backward(self, step: int, part: Part, *, suffix: str = "") -> Completion[Any]:
        """Push backward of the batch whose forward was pushed last; return its end."""
        completion: Completion[Any] | None = None
        for stage in reversed(self.stages):
            behind = self._activations[stage.index + 1 : stage.index + 2]
            batch = part.variables if stage.takes_batch else ()
            completed = (self.gradients[number] for number in self._completed[stage.index])
            completion = self.engine.push(
                self._measured(partial(self._backward, stage)),
                [*behind, *batch, *(self.parameters[number] for number in self._read[stage.index])],
                [self._activations[stage.index], *completed],
                lane=self.where.lane,
                name=self._name("backward", step, stage) + suffix,
                skipped=self._skipped,
            )
        assert completion is not None
        return completion

    def _measured(self, task: Callable[[], Any]) -> Callable[[], Any]:
        return task if self._timed is None else partial(self._timed, task)

    def _name(self, what: str, step: int, stage: Stage) -> str:
        of_stage = f", stage {stage.index}" if len(self.stages) > 1 else ""
        return f"{what} {step}{of_stage}{self._of_device}"

    # What the tasks do.

    def _forward(self, step: int, part: Part, stage: Stage, finish: Callable[[StagePass], Any] | None) -> Any:
        if part.number == 0:
            for tensor in self._tensors[stage.index]:
                tensor.grad = None
        if not stage.module.training:
            stage.module.train()
        net, where = self.net, self.where
        if net.draws is not None:
            net.draws.at(seed=where.seed, step=step, first=part.first, samples=part.samples)
        before = self._passes[stage.index - 1] if stage.index else None
        if before is None:
            given = net.placed({name: tensor.to(where.device) for name, tensor in part.inputs.items()})
        else:
            given = before.outputs
        with torch.autocast(where.device.type, torch.bfloat16, enabled=where.mixed):
            done = run_stage(net, stage, given)
        if before is not None:
            before.release_outputs()
        self._passes[stage.index] = done
        return None if finish is None else finish(done)

    def _backward(self, stage: Stage) -> None:
        done = self._passes[stage.index]
        assert done is not None
        if stage is self.stages[-1]:
            self._above = run_backward(done, [], objective=done.outputs[0])
        else:
            self._above = run_backward(done, self._above)
        self._passes[stage.index] = None
        self.ended_s = perf_counter()


def objective_of(outputs: Mapping[str, torch.Tensor], losses: Mapping[str, float]) -> torch.Tensor:
    """Return the weighted sum of the losses."""
    terms = [weight * outputs[name].sum() for name, weight in losses.items()]
    return torch.stack(terms).sum() if terms else torch.zeros(())


def split_bounds(samples: int, num_parts: int) -> list[tuple[int, int]]:
    """Return where a batch is split over several devices, by MXNet's rule.

    Parts have ``round(samples / num_parts)`` samples, the last takes the rest (``_split_input_slice`` of
    python/mxnet/executor_manager.py at 1.9.1).

    Raises:
        UsageError: A part would be empty.

    >>> split_bounds(10, 4)
    [(0, 2), (2, 4), (4, 6), (6, 10)]
    """
    each = round(samples / num_parts)
    bounds = []
    for number in range(num_parts):
        start = min(number * each, samples)
        is_last = number == num_parts - 1
        stop = samples if is_last else min(start + each, samples)
        if start >= stop:
            raise UsageError(
                f"a batch of {samples} cannot be split over {num_parts} devices: one would get nothing; "
                f"use at least {num_parts} records in a batch"
            )
        bounds.append((start, stop))
    return bounds


def _numbers(of_key: Mapping[str, Sequence[int]], keys: Sequence[str]) -> list[int]:
    """Return the slices that hold elements of some parameters."""
    return sorted({number for key in keys for number in of_key.get(key, ())})
