"""One update as tasks on the engine: forward, backward and update, each stage and each slice by itself.

Every slice of the parameters is a variable of the engine, and so is its gradient. Forward of a stage reads
its slices, backward writes their gradients, an update reads a gradient and writes its slice. That is all
there is to the order of things: what reads a slice waits for its update, an update waits for the last
backward that adds to its gradient, and whatever stands in between, an exchange with other devices, names the
same variables. Nothing here waits for a result.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

from netweave.backends.torch.finite import first_not_finite
from netweave.backends.torch.stages import run_backward, run_stage
from netweave.engine import Variable
from netweave.errors import RunError
from netweave.training.openmp import single_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from netweave.backends.torch import TorchNet
    from netweave.backends.torch.stages import Stage, StagePass
    from netweave.engine import Completion, Engine
    from netweave.job import Job
    from netweave.optim import Update, Updater
    from netweave.training.ranks import RankExchange

COMPUTE = "compute"


@dataclass(frozen=True, slots=True)
class StepResult:
    """What is known of an update as soon as its forward passes are done.

    Attributes:
        loss: The smoothed objective.
        rate: Learning rate, before multipliers.
        outputs: Outputs of the net in the last batch.
        stop: Whether any rank was asked to stop before it computed this.
    """

    loss: float
    rate: float
    outputs: Mapping[str, torch.Tensor]
    stop: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """What one forward and backward pass works on.

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


@dataclass(frozen=True, slots=True)
class Where:
    """Where and how a program computes.

    Attributes:
        device: The device.
        mixed: Whether torch may compute in bfloat16 what bears it.
        seed: Of what is drawn.
        update_lane: Lane on which slices are updated; another one than ``compute`` has one thread.
    """

    device: torch.device
    mixed: bool
    seed: int
    update_lane: str = COMPUTE


class StepProgram:
    """The tasks of a net's updates.

    Args:
        job: The Job, for its losses and for messages.
        net: The training net.
        stages: The net's stages.
        updater: Changes its parameters.
        engine: Where tasks run.
        where: Where and how they compute.
        ranks: What of an update is exchanged with other ranks; None for a run of one.

    Attributes:
        stages: The stages.
        parameters: A variable for each slice.
        gradients: A variable for the gradient of each slice.
        state: The variable of what forward passes change: moving statistics, and what nodes keep.
        losses: The objectives that the smoothed one is the mean of; changed by tasks.
    """

    def __init__(
        self,
        job: Job,
        net: TorchNet,
        stages: Sequence[Stage],
        updater: Updater,
        *,
        engine: Engine,
        where: Where,
        ranks: RankExchange | None = None,
    ) -> None:
        self._ranks = ranks
        self.stages = tuple(stages)
        slices = range(len(updater.layout.slices))
        self.parameters = [Variable(f"slice {number}") for number in slices]
        self.gradients = [Variable(f"gradient of slice {number}") for number in slices]
        self.state = Variable("statistics")
        self.losses: deque[float] = deque(maxlen=max(1, job.schedule.average_loss))
        self._job, self._net, self._updater, self._engine, self._where = job, net, updater, engine, where
        self._activations = [Variable(f"activations of stage {stage.index}") for stage in stages]
        self._begun = Variable("beginning of an update")
        of_key = {key: updater.layout.slices_of(key) for key in updater.layout.offsets}
        self._read = [_numbers(of_key, stage.reads) for stage in stages]
        self._completed = [_numbers(of_key, stage.completes) for stage in stages]
        self._groups = self._grouped()
        self._tensors = [[net.store[key].tensor for key in stage.completes] for stage in stages]
        self._passes: list[StagePass | None] = [None] * len(stages)
        self._above: list[torch.Tensor | None] = []
        self._sum = 0.0
        self._update: Update | None = None
        self._last: Completion[Any] | None = None
        self._ended_s = 0.0
        if where.update_lane != COMPUTE:
            engine.add_lane(where.update_lane)
            engine.push(single_thread, lane=where.update_lane)

    def completing_stages(self) -> list[int]:
        """Return, for each slice, the stage whose backward is the last that adds to its gradient."""
        found = [0] * len(self.gradients)
        for stage, numbers in reversed(list(enumerate(self._completed))):
            for number in numbers:
                found[number] = stage
        return found

    @property
    def variables(self) -> list[Variable]:
        """All that tasks of the program change."""
        return [*self.parameters, *self.gradients, *self._activations, self.state, self._begun]

    def wait(self) -> None:
        """Wait for all that was pushed.

        Raises:
            RunError: Something of it failed.
        """
        for variable in self.variables:
            self._engine.wait_for(variable)

    def idle_since(self) -> float:
        """Return when the last task ended, by ``perf_counter``; infinity while there is one."""
        return self._ended_s if self._last is None or self._last.done else math.inf

    def push(self, step: int, part: Part) -> Completion[StepResult | None]:
        """Push forward and backward of a batch; after the last of an update push its ``push_updates``.

        Args:
            step: Updates done before.
            part: The batch.

        Returns:
            What is there after the last forward; None before the last batch of the update.
        """
        result: Completion[Any] | None = None
        for stage in self.stages:
            result = self._push_forward(step, part, stage)
        if self._ranks is not None and part.number == self._updater.accumulate - 1:
            result = self._ranks.push_means(step, self._begun, self._result)
        for stage in reversed(self.stages):
            self._push_backward(step, part, stage)
        assert result is not None
        return result

    def push_updates(self, step: int) -> None:
        """Push the updates of all slices, and what is exchanged before and after."""
        ranks = self._ranks
        if ranks is not None:
            ranks.push_gradients(step, self.gradients)
        if self._updater.rule.measures:
            self._engine.push(self._begin, self.gradients, [self._begun], name=f"begin update {step}")
        lane = self._where.update_lane
        for numbers in self._groups:
            if ranks is not None and not ranks.owns(numbers[0]):
                continue
            first, last = numbers[0], numbers[-1]
            named = f"slice {first}" if first == last else f"slices {first} to {last}"
            self._last = self._engine.push(
                partial(self._apply, numbers),
                (self._begun, *(self.gradients[number] for number in numbers)),
                [self.parameters[number] for number in numbers],
                lane=lane,
                # beside the passes, what the next forward reads first goes first; between them, at once
                priority=1 if lane == COMPUTE else -first,
                name=f"update {step}, {named}",
            )
        if ranks is not None:
            ranks.push_parameters(step, self.parameters)

    def _grouped(self) -> list[list[int]]:
        """Return the slices that are updated by one task: on the lane of the passes those of a stage.

        They are ready at the same time there, and a task for each would cost some 40 us for nothing. Slices
        that are exchanged with other ranks become ready one by one, and each has one owner.
        """
        if self._where.update_lane != COMPUTE or self._ranks is not None:
            return [[number] for number in range(len(self.parameters))]
        by_stage: dict[int, list[int]] = {}
        for number in range(len(self.parameters)):
            stages = (stage for stage, numbers in enumerate(self._completed) if number in numbers)
            by_stage.setdefault(min(stages, default=0), []).append(number)
        return [by_stage[stage] for stage in sorted(by_stage, reverse=True)]

    def _push_forward(self, step: int, part: Part, stage: Stage) -> Completion[Any]:
        before = self._activations[stage.index - 1 : stage.index] if stage.index else []
        batch = part.variables if stage.takes_batch else ()
        reads = [*before, *batch, *(self.parameters[number] for number in self._read[stage.index])]
        writes = [
            self._activations[stage.index],
            self.state,
            *(self.gradients[number] for number in self._completed[stage.index]),
        ]
        if stage is self.stages[-1]:
            writes.append(self._begun)
        task = self._timed(partial(self._forward, step, part, stage))
        return self._engine.push(
            task, reads, writes, lane=COMPUTE, name=self._name("forward", step, part, stage)
        )

    def _push_backward(self, step: int, part: Part, stage: Stage) -> None:
        behind = self._activations[stage.index + 1 : stage.index + 2]
        batch = part.variables if stage.takes_batch else ()
        reads = [*behind, *batch, *(self.parameters[number] for number in self._read[stage.index])]
        completed = (self.gradients[number] for number in self._completed[stage.index])
        writes = [self._activations[stage.index], *completed]
        task = self._timed(partial(self._backward, stage))
        name = self._name("backward", step, part, stage)
        self._last = self._engine.push(task, reads, writes, lane=COMPUTE, name=name)

    def _timed(self, task: Callable[[], Any]) -> Callable[[], Any]:
        return task if self._ranks is None else partial(self._ranks.timed, task)

    def _name(self, what: str, step: int, part: Part, stage: Stage) -> str:
        of_stage = f", stage {stage.index}" if len(self.stages) > 1 else ""
        return f"{what} {step}{of_stage}" + (f", batch {part.number}" if self._updater.accumulate > 1 else "")

    # What the tasks do.

    def _forward(self, step: int, part: Part, stage: Stage) -> StepResult | None:
        if part.number == 0:
            for tensor in self._tensors[stage.index]:
                tensor.grad = None
        if not stage.module.training:
            stage.module.train()
        net, where = self._net, self._where
        if net.draws is not None:
            net.draws.at(seed=where.seed, step=step, first=part.first, samples=part.samples)
        if stage.index == 0:
            given = net.placed({name: tensor.to(where.device) for name, tensor in part.inputs.items()})
        else:
            before = self._passes[stage.index - 1]
            assert before is not None
            given = before.outputs
        with torch.autocast(where.device.type, torch.bfloat16, enabled=where.mixed):
            done = run_stage(net, stage, given)
        self._passes[stage.index] = done
        return self._measure(step, part, done) if stage is self.stages[-1] else None

    def _measure(self, step: int, part: Part, done: StagePass) -> StepResult | None:
        """Make the outputs of the last stage the objective; after the last batch begin the update."""
        phase = self._job.phases["train"]
        outputs = dict(zip(self._net.names, done.outputs, strict=True))
        objective = objective_of(outputs, phase.losses)
        done.outputs = [objective]
        loss = float(objective.detach())
        self._sum = loss if part.number == 0 else self._sum + loss
        if not math.isfinite(loss):
            # raised here, before backward: the tasks behind do not run, the parameters stay as they were
            raise self._not_finite(step, part, loss)
        updater = self._updater
        if part.number < updater.accumulate - 1:
            return None
        names = [value.name or "" for value in phase.graph.outputs]
        shown = {name: outputs[name].detach() for name in names}
        if self._ranks is not None:
            self._ranks.measured(self._sum / updater.accumulate, shown)
            return None
        return self._result(self._sum / updater.accumulate, shown)

    def _result(self, loss: float, outputs: Mapping[str, torch.Tensor], *, stop: bool = False) -> StepResult:
        """Go on to the update that the objective of the whole batch belongs to."""
        updater = self._updater
        self.losses.append(loss)
        smoothed = sum(self.losses) / len(self.losses)
        rate = updater.advance(smoothed)
        if not updater.rule.measures:
            self._update = updater.begin()
        return StepResult(smoothed, rate, outputs, stop)

    def _not_finite(self, step: int, part: Part, loss: float) -> RunError:
        job = self._job
        where = first_not_finite(self._net, job.phases["train"].graph, part.inputs)
        return RunError(
            f"{job.name}: the loss is {loss} in iteration {step}{f': {where}' if where else ''}; nothing is "
            "written from here on. Take a lower learning rate, or clip gradients, and go on from an "
            "earlier checkpoint"
        )

    def _backward(self, stage: Stage) -> None:
        done = self._passes[stage.index]
        assert done is not None
        if stage is self.stages[-1]:
            self._above = run_backward(done, [], objective=done.outputs[0])
        else:
            self._above = run_backward(done, self._above)
        self._passes[stage.index] = None
        self._ended_s = perf_counter()

    def _begin(self) -> None:
        updater, ranks = self._updater, self._ranks
        sums = updater.measure() if ranks is None else ranks.measure_gradients(updater)
        self._update = updater.begin(sums)

    def _apply(self, numbers: Sequence[int]) -> None:
        assert self._update is not None
        for number in numbers:
            self._updater.apply(self._update, number)
        self._ended_s = perf_counter()


def objective_of(outputs: Mapping[str, torch.Tensor], losses: Mapping[str, float]) -> torch.Tensor:
    """Return the weighted sum of the losses."""
    terms = [weight * outputs[name].sum() for name, weight in losses.items()]
    return torch.stack(terms).sum() if terms else torch.zeros(())


def _numbers(of_key: Mapping[str, Sequence[int]], keys: Sequence[str]) -> list[int]:
    """Return the slices that hold elements of some parameters."""
    return sorted({number for key in keys for number in of_key.get(key, ())})
