"""One update as tasks on the engine: forward, backward and update, each stage and each slice by itself.

Forward and backward are those of ``NetPasses``. An update of a slice reads its gradient and writes it: what
reads a slice waits for its update, an update waits for the last backward that adds to its gradient, and
whatever stands in between, an exchange with other ranks, names the same variables. Nothing here waits for a
result.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

from netweave.errors import RunError
from netweave.job import Job
from netweave.runtime.backends.torch.device import single_thread
from netweave.runtime.backends.torch.net import first_not_finite
from netweave.runtime.backends.torch.stages import Stage, StagePass
from netweave.runtime.engine import Completion, Engine, Variable
from netweave.training.net_passes import COMPUTE, NetPasses, Part, Where, objective_of
from netweave.training.optim import Update, Updater
from netweave.training.rank_exchange import RankExchange
from netweave.training.shard_ranks import ShardRanks

if TYPE_CHECKING:
    from netweave.training.monitor import Look

__all__ = ["COMPUTE", "NetPasses", "Part", "StepProgram", "StepResult", "Where", "objective_of"]


@dataclass(frozen=True, slots=True)
class StepResult:
    """Results of an update that are known as soon as its forward passes are done.

    Attributes:
        loss: The smoothed objective.
        rate: Learning rate, before multipliers.
        outputs: Outputs of the net in the last batch.
        stop: The exit status that any rank was asked to stop with before it computed this; 0 if none was.
        saves: Whether the first of several ranks has asked for a checkpoint.
    """

    loss: float
    rate: float
    outputs: Mapping[str, torch.Tensor]
    stop: int = 0
    saves: bool = False


class StepProgram:
    """The tasks of a net's updates.

    Args:
        job: The Job, for its losses and for messages.
        passes: The passes of the training net.
        updater: Changes its parameters.
        engine: Where tasks run.
        ranks: What of an update is exchanged with other ranks; None for a run of one.
        looks: What looks at values of the net while they are there.

    Attributes:
        passes: The passes.
        losses: The objectives that the smoothed one is the mean of; changed by tasks.
    """

    def __init__(
        self,
        job: Job,
        passes: NetPasses,
        updater: Updater,
        *,
        engine: Engine,
        ranks: RankExchange | None = None,
        looks: Sequence[Look] = (),
    ) -> None:
        self._looks = tuple(looks)
        self.passes = passes
        self.losses: deque[float] = deque(maxlen=max(1, job.schedule.average_loss))
        self._ranks = ranks
        self._job, self._updater, self._engine = job, updater, engine
        self._shards = ranks if isinstance(ranks, ShardRanks) else None
        self._num_passes = updater.accumulate if self._shards is None else self._shards.num_passes
        self._held: dict[str, Part] = {}  # batches without a backward, by the suffix of their tasks' names
        self._begun = Variable("beginning of an update")
        self._sum = 0.0
        self._groups = self._grouped()
        self._update: Update | None = None
        self._last: Completion[Any] | None = None
        self._ended_s = 0.0
        if self._update_lane != COMPUTE:
            engine.add_lane(self._update_lane)
            engine.push(single_thread, lane=self._update_lane)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of the net."""
        return self.passes.stages

    @property
    def parameters(self) -> list[Variable]:
        """A variable for each slice."""
        return self.passes.parameters

    @property
    def gradients(self) -> list[Variable]:
        """A variable for the gradient of each slice."""
        return self.passes.gradients

    @property
    def state(self) -> Variable:
        """The variable of what forward passes change: moving statistics, and what nodes keep."""
        return self.passes.state

    def completing_stages(self) -> list[int]:
        """Return, for each slice, the stage whose backward is the last that adds to its gradient."""
        return [min(self.passes.stages_of(number), default=0) for number in range(len(self.gradients))]

    @property
    def variables(self) -> list[Variable]:
        """All that tasks of the program change."""
        return [*self.passes.variables, self._begun]

    def wait(self) -> None:
        """Wait for all that was pushed.

        Raises:
            RunError: Something of it failed.
        """
        for variable in self.variables:
            self._engine.wait_for(variable)

    def idle_since(self) -> float:
        """Return when the last task ended, by ``perf_counter``; infinity while there is one."""
        return self._ended_at() if self._last is None or self._last.done else math.inf

    def _ended_at(self) -> float:
        return max(self._ended_s, self.passes.ended_s)

    def push(self, step: int, part: Part) -> Completion[StepResult | None]:
        """Push forward and backward of a batch; after the last of an update push its ``push_updates``.

        Args:
            step: Updates done before.
            part: The batch.

        Returns:
            What is there after the last forward; None before the last batch of the update.
        """
        suffix = f", batch {part.number}" if self._num_passes > 1 else ""
        is_last = part.number == self._num_passes - 1
        if self._shards is not None and not part.number:
            self._shards.push_begin(self.state)
        result: Completion[Any] = self.passes.push_forward(
            step, part, partial(self._measure, step, part), writes=[self._begun], suffix=suffix
        )
        self._last = result
        if is_last and self._ranks is not None:
            result = self._ranks.push_means(step, self._begun, self._result)
        self._held[suffix] = part
        if is_last or len(self._held) == self.passes.num_held:
            done = _nothing if self._shards is None else self._shards.take_gradients
            self._last = self.passes.push_backward(step, self._held, done=done)
            self._held = {}
        return result

    def push_looks(self, step: int) -> Completion[None] | None:
        """Push what looks at gradients between backward and the update; None where nothing does."""
        due = [look for look in self._looks if look.needs_gradients and look.is_due(step)]
        if not due:
            return None

        def look_at_all() -> None:
            for look in due:
                look.look_at_gradients(self.passes.net)

        reads = [*self.parameters, *self.gradients]
        return self._engine.push(look_at_all, reads, lane=COMPUTE, name=f"look at gradients {step}")

    def push_updates(self, step: int) -> None:
        """Push the updates of all slices, and what is exchanged before and after."""
        ranks = self._ranks
        if ranks is not None:
            ranks.push_gradients(step, self.gradients)
        if self._updater.rule.measures:
            # ranks wait in it for each other: one without parameters first computes backwards for others
            reads = [*self.gradients, *self.passes.activations]
            self._engine.push(self._begin, reads, [self._begun], name=f"begin update {step}")
        lane = self._update_lane
        for numbers in self._groups:
            if ranks is not None and not ranks.owns(numbers[0]):
                continue
            first, last = numbers[0], numbers[-1]
            apply = partial(self._apply, numbers)
            named = f"slice {first}" if first == last else f"slices {first} to {last}"
            self._last = self._engine.push(
                apply if ranks is None or not self._updater.computes else partial(ranks.timed, apply),
                (self._begun, *(self.gradients[number] for number in numbers)),
                [self.parameters[number] for number in numbers],
                lane=lane,
                # beside the passes, what the next forward reads first goes first; between them, at once
                priority=1 if lane == COMPUTE else -first,
                name=f"update {step}, {named}",
            )
        between = self._updater.between()
        if between is not None:
            self._last = self._engine.push(
                between, (), self.parameters, lane=lane, name=f"synchronise {step}"
            )
        if ranks is not None:
            ranks.push_parameters(step, self.parameters)

    @property
    def _update_lane(self) -> str:
        return self.passes.where.update_lane

    def _grouped(self) -> list[list[int]]:
        """Return the slices that are updated by one task: on the lane of the passes those of a stage.

        They are ready at the same time there, and a task for each would cost some 40 us for nothing. Slices
        that are summed over ranks become ready one by one, and each has one owner.
        """
        stages = self.completing_stages()
        if self._update_lane != COMPUTE or self._ranks is not None:
            return self._updater.together(stages)
        by_stage: dict[int, list[int]] = {}
        for number, stage in enumerate(stages):
            by_stage.setdefault(stage, []).append(number)
        return [by_stage[stage] for stage in sorted(by_stage, reverse=True)]

    # What the tasks do.

    def _measure(self, step: int, part: Part, done: StagePass) -> StepResult | None:
        """Make the outputs of the last stage the objective; after the last batch begin the update."""
        phase, net = self._job.phases["train"], self.passes.net
        outputs = dict(zip(net.names, done.outputs, strict=True))
        objective = objective_of(outputs, phase.losses)
        done.outputs = [objective]
        loss = float(objective.detach())
        self._sum = loss if part.number == 0 else self._sum + loss
        if not math.isfinite(loss):
            # raised here, before backward: the tasks behind do not run, the parameters stay as they were
            raise self._not_finite(step, part, loss)
        is_last = part.number == self._num_passes - 1
        if not is_last and self._shards is None:
            return None
        for look in self._looks:
            if is_last and look.is_due(step):
                look.look(net, outputs)
        names = [value.name or "" for value in phase.graph.outputs]
        shown = {name: outputs[name].detach() for name in names}
        if self._shards is None:
            loss = self._sum / self._num_passes
        if self._ranks is not None:
            self._ranks.measured(loss, shown)
            return None
        return self._result(loss, shown)

    def _result(
        self, loss: float, outputs: Mapping[str, torch.Tensor], *, stop: int = 0, saves: bool = False
    ) -> StepResult:
        """Go on to the update that the objective of the whole batch belongs to."""
        updater = self._updater
        self.losses.append(loss)
        smoothed = sum(self.losses) / len(self.losses)
        rate = updater.advance(smoothed)
        if not updater.rule.measures:
            self._update = updater.begin()
        return StepResult(smoothed, rate, outputs, stop, saves)

    def _not_finite(self, step: int, part: Part, loss: float) -> RunError:
        job = self._job
        where = first_not_finite(self.passes.net, self.passes.net.graph, part.inputs)
        return RunError(
            f"{job.name}: the loss is {loss} in iteration {step}{f': {where}' if where else ''}; nothing is "
            "written from here on. Take a lower learning rate, or clip gradients, and go on from an "
            "earlier checkpoint"
        )

    def _begin(self) -> None:
        updater, ranks = self._updater, self._ranks
        sums = updater.measure() if ranks is None else ranks.measure_gradients(updater)
        self._update = updater.begin(sums)

    def _apply(self, numbers: Sequence[int]) -> None:
        assert self._update is not None
        self._updater.apply(self._update, *numbers)
        self._ended_s = perf_counter()


def _nothing(part: Part, stage: Stage) -> None:
    """Take no gradients after a backward."""
