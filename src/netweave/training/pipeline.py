"""Pipelines of ranks: each computes a stage of the net, and micro-batches pass from stage to stage.

An update is a list of passes for each stage, forwards and backwards of micro-batches, that its rank pushes in
this order. What a stage needs of another is a variable that the pass reads and a receive writes; so a stage
computes as soon as its turn and its values have come, and sends while it computes on. Values go from the
stage that makes them straight to each that reads them, whichever lie in between, and gradients the same way
back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import isfinite, prod
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir
import torch
from torch import Tensor, distributed

from netweave.errors import UnsupportedError
from netweave.graph import Graph, known_shape
from netweave.graph.passes.extraction import Extractor
from netweave.graph.passes.partition import sent_values
from netweave.runtime.backends.torch import TorchNet
from netweave.runtime.backends.torch.node_memory import memories
from netweave.runtime.backends.torch.whole_batch import WholeBatch
from netweave.runtime.engine import Variable
from netweave.training.data import Shards
from netweave.training.net_passes import COMPUTE, NetPasses, Part, objective_of
from netweave.training.parallel.link import Channel
from netweave.training.parallel.plan import BACKWARD, FORWARD, num_held, passes_of
from netweave.training.partition_ranks import PartitionRanks
from netweave.training.step_program import StepProgram, StepResult

if TYPE_CHECKING:
    from torch.distributed import Work

    from netweave.job import Job
    from netweave.runtime.backends.torch.stages import Stage, StagePass
    from netweave.runtime.engine import Completion, Engine
    from netweave.training.goodput import RankWork
    from netweave.training.optim import Updater
    from netweave.training.parallel.world import World
    from netweave.training.partitioned import Partition
    from netweave.training.watchers import TrainOptions

TESTS = "tests"
"""The direction of values in a test, in which no gradient comes back."""


class MicroBatch(WholeBatch):
    """A part of a batch whose losses are divided by what is counted in all parts; statistics are its own.

    Args:
        parts: How many parts of like size a batch has.

    Attributes:
        counts: What the losses of the net count in the whole batch, in the order in which they ask.
    """

    is_synchronised = False

    def __init__(self, parts: int) -> None:
        self.parts = parts
        self.counts: list[Tensor] = []
        self._asked = 0

    def end(self) -> None:
        """End a pass: the next loss that asks is the first one."""
        self._asked = 0

    def total(self, value: Tensor) -> Tensor:
        """Return what the sum is if all parts are as this one: a share of right answers is then its own."""
        return value * self.parts

    def divisor(self, count: Tensor | float | None) -> Tensor | float:
        """Return what a part's sum is divided by so that the mean over the parts is right."""
        if count is None:
            return 1 / self.parts
        if not isinstance(count, Tensor):
            return max(1, count * self.parts) / self.parts
        if self._asked < len(self.counts):
            whole = self.counts[self._asked]
            self._asked += 1
        else:  # nothing is trained by this pass
            whole = count * self.parts
        return whole.clamp(min=1).double() / self.parts


class _Counter(WholeBatch):
    """Notes what a loss counts."""

    is_synchronised = False

    def __init__(self) -> None:
        self.parts = 2  # of one part a loss asks nothing
        self.counts: list[Tensor] = []

    def total(self, value: Tensor) -> Tensor:
        """Return the part's own."""
        return value

    def divisor(self, count: Tensor | float | None) -> Tensor | float:
        """Note a count."""
        if isinstance(count, Tensor):
            self.counts.append(count.detach().clone())
        return 1.0


@dataclass(frozen=True, slots=True)
class CountedLoss:
    """A loss that divides by a number of labels, which is known before its scores are.

    Attributes:
        net: Computes the loss alone.
        scores: Name of its scores.
        sizes: Their sizes without the batch.
        dtype: Type of the numbers.
    """

    net: TorchNet
    scores: str
    sizes: tuple[int, ...]
    dtype: torch.dtype

    def count(self, fed: Mapping[str, Tensor]) -> list[Tensor]:
        """Return what the loss counts in a micro-batch, in one tensor if it counts anything."""
        counter = _Counter()
        self.net.set_whole_batch(counter)
        samples = len(next(iter(fed.values())))
        zeros = torch.zeros((samples, *self.sizes), dtype=self.dtype, requires_grad=True)
        names = [value.name or "" for value in self.net.graph.inputs]
        self.net.compute({name: zeros if name == self.scores else fed[name] for name in names})
        return counter.counts


def _counts_labels(node: ir.Node) -> bool:
    """Return whether a loss divides by a number that differs from micro-batch to micro-batch."""
    values = node.attributes
    if not node.domain:
        is_mean_of_losses = node.op_type in {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"}
        weighs = "ignore_index" in values or len([one for one in node.inputs if one is not None]) > 2
        return is_mean_of_losses and weighs and values.get_string("reduction", "mean") == "mean"
    normalization = values.get_string("normalization", "")
    return normalization == "valid" or (normalization == "VALID" and "ignore_label" in values)


def counted_losses(graph: Graph, fed: Sequence[str], dtype: torch.dtype) -> list[CountedLoss]:
    """Return the losses of a stage that divide by a number of labels, in the order of its nodes.

    Args:
        graph: The stage's graph.
        fed: Names of the inputs that are read from the data, and not received from another stage.
        dtype: Type of the numbers.

    Raises:
        UnsupportedError: What a loss counts is not known before the net is computed.
    """
    known = {value for value in graph.inputs if value.name in fed}  # from the data alone
    for node in graph.nodes:
        taken = [value for value in node.inputs if value is not None and not value.is_initializer()]
        if taken and known.issuperset(taken):
            known.update(node.outputs)
    losses = []
    for node in filter(_counts_labels, graph.nodes):
        scores, *labels = (value for value in node.inputs if value is not None and not value.is_initializer())
        if not labels or not known.issuperset(labels):
            raise UnsupportedError(
                f"{node.op_type} divides by a number that is counted in what the net computes, and that of a "
                "whole batch is not known before its last micro-batch; normalise by the size of the batch, "
                "or leave micro_batches out",
                place=graph.place_of(node),
            )
        names = [name for name in fed if name != scores.name]
        part = Extractor(graph).extract(
            inputs=[scores.name or "", *names], outputs=[value.name or "" for value in node.outputs[:1]]
        )
        sizes = tuple(size or 1 for size in (known_shape(scores) or ())[1:])
        losses.append(CountedLoss(TorchNet(part).to(dtype).train(), scores.name or "", sizes, dtype))
    return losses


@dataclass(frozen=True, slots=True)
class Crossing:
    """A value that goes from one stage to another.

    Attributes:
        name: Its name.
        sizes: Its sizes without the batch.
        dtype: Its type.
        is_trained: Whether its gradient comes back.
    """

    name: str
    sizes: tuple[int, ...]
    dtype: torch.dtype
    is_trained: bool


@dataclass(slots=True)
class Link:
    """Values that one stage sends to another, and the gradients that come back, as bytes in one message.

    Attributes:
        sender: The stage that makes the values.
        receiver: The one that reads them.
        crossings: The values.
        groups: The process group of each direction, by ``FORWARD`` and ``BACKWARD``, and of tests.
        channels: Their collectives.
        boxes: What is on its way, by direction and place.
        variables: The variables of the boxes.
    """

    sender: int
    receiver: int
    crossings: tuple[Crossing, ...]
    groups: dict[str, Any] = field(default_factory=dict)
    channels: dict[str, Channel] = field(default_factory=dict)
    boxes: dict[tuple[str, int], list[Tensor]] = field(default_factory=dict)
    variables: dict[tuple[str, int], Variable] = field(default_factory=dict)

    def moved(self, direction: str) -> tuple[Crossing, ...]:
        """Return the values that go, or whose gradients come back."""
        return tuple(one for one in self.crossings if one.is_trained or direction != BACKWARD)

    def variable(self, direction: str, place: int) -> Variable:
        """Return the variable of a box."""
        name = f"{direction} box {place} of stages {self.sender} and {self.receiver}"
        return self.variables.setdefault((direction, place), Variable(name))

    def send(self, direction: str, tensors: Sequence[Tensor], *, waits: bool) -> Work | None:
        """Send values in the order of ``moved``."""
        row = torch.cat([tensor.detach().contiguous().reshape(-1).view(torch.uint8) for tensor in tensors])
        return self._move(direction, row, waits=waits)

    def receive(
        self, direction: str, samples: int, *, waits: bool
    ) -> tuple[Work | None, Callable[[], list[Tensor]]]:
        """Receive values; return the work, and what gives them when it is done."""
        moved = self.moved(direction)
        sizes = [samples * prod(one.sizes) * one.dtype.itemsize for one in moved]
        row = torch.empty(sum(sizes), dtype=torch.uint8)

        def values() -> list[Tensor]:
            return [
                part.clone().view(one.dtype).reshape(samples, *one.sizes)
                for one, part in zip(moved, row.split(sizes), strict=True)
            ]

        return self._move(direction, row, waits=waits), values

    def _move(self, direction: str, row: Tensor, *, waits: bool) -> Work | None:
        source = self.receiver if direction == BACKWARD else self.sender
        work: Work | None = distributed.broadcast(
            row, source, group=self.groups[direction], async_op=not waits
        )
        return work


class PipelineRanks(PartitionRanks):
    """Tasks that a run adds to an update whose net is a pipeline of ranks.

    Args:
        partition: The stages.
        world: The ranks.
        options: Say in which order passes are made.
        engine: Where tasks run.

    Attributes:
        shards: The micro-batches of a batch; each rank takes all of them.
        order: The order of passes, one of ``PIPELINES``.
        num_held: The micro-batches whose activations this rank has at the same time.
        batch: The whole batch as a micro-batch sees it.
        links: What this rank sends and receives in an update.

    Raises:
        UsageError: There is no such order, or ranks have other micro-batches.
    """

    def __init__(self, partition: Partition, world: World, options: TrainOptions, *, engine: Engine) -> None:
        super().__init__(partition, world, options, engine=engine)
        count, self.order = partition.micro_batches or 1, options.pipeline
        self.require_same_start({"the number of micro-batches": count, "the order of passes": self.order})
        self.shards = Shards(0, count, count)
        self.display_passes = count
        self.num_held = num_held(self.order, world.rank, world.size, count)
        self.batch = MicroBatch(count)
        self.links = self._links("train", (FORWARD, BACKWARD))
        self._tests = {name: self._links(name, (TESTS,)) for name in sorted(partition.plans)}

    def _links(self, phase: str, directions: Sequence[str]) -> list[Link]:
        """Return the links of this rank, in the order of all; all ranks open the groups of all links."""
        world, plan, links = self.world, self.partition.plans[phase], []
        values = plan.graph.values()
        for (sender, receiver), names in sent_values(plan).items():
            link = Link(sender, receiver, tuple(self._crossing(values[name], plan.trained) for name in names))
            for direction in directions:
                name = f"{direction} of {phase}, stages {sender} and {receiver}"
                link.groups[direction] = world.group(name, (sender, receiver))
                if direction != TESTS and world.rank in {sender, receiver}:
                    link.channels[direction] = Channel(world, self._engine, name)
            if world.rank in {sender, receiver}:
                links.append(link)
        return links

    def _crossing(self, value: ir.Value, trained: set[str]) -> Crossing:
        sizes = tuple(size or 0 for size in (known_shape(value) or ())[1:])
        dtype = self.partition.dtype
        if value.dtype is not None and not value.dtype.is_floating_point():
            return Crossing(
                value.name or "", sizes, torch.from_numpy(np.empty(0, value.dtype.numpy())).dtype, False
            )
        return Crossing(value.name or "", sizes, dtype, value.name in trained)

    @property
    def received(self) -> list[Link]:
        """The links over which this rank receives values."""
        return [link for link in self.links if link.receiver == self.world.rank]

    @property
    def sent(self) -> list[Link]:
        """The links over which it sends values."""
        return [link for link in self.links if link.sender == self.world.rank]

    def join_batch(self, net: TorchNet, job: Job) -> None:
        """Let a net's operators see the whole batch of which a pass computes a micro-batch.

        Raises:
            UnsupportedError: The net keeps something from batch to batch for each sample, or several batches
                are accumulated.
        """
        keeping = ", ".join(memories(net.module))
        if keeping:
            raise UnsupportedError(
                f"{job.name}: {keeping} keep their state from batch to batch, so they cannot be trained in "
                "micro-batches; use one device"
            )
        if net.graph is self.partition.graphs["train"]:
            net.set_whole_batch(self.batch)

    def measured(self, loss: float, outputs: Mapping[str, Tensor]) -> None:
        """Take the objective and the outputs of this stage; other stages have the others."""
        names = [
            value.name or "" for value in self.partition.plans["train"].graph.outputs if _is_number(value)
        ]
        zero, size = torch.zeros((), dtype=self.partition.dtype), self.world.size
        super().measured(loss * size, {name: outputs.get(name, zero) * size for name in names})

    def average_states(self, net: TorchNet) -> None:
        """Do nothing: one rank has the moving statistics of a layer."""

    def gather_work(self, graph: Graph, samples: int, input_threads: float) -> tuple[RankWork, ...]:
        """Return what each rank did since its first update, with its own stage."""
        return super().gather_work(self.partition.graphs["train"], samples, input_threads)

    def compute(self, phase: str, net: TorchNet, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return what this rank's stage of a tested net gives, by name; the inputs are those of the net."""
        own = {
            value.name or "": inputs[value.name or ""] for value in net.graph.inputs if value.name in inputs
        }
        samples, rank = len(next(iter(inputs.values()))), self.world.rank
        links = self._tests[phase]
        self.batch.counts = []
        with self.world.watched("the values of a test"):
            for link in links:  # all ranks go through the links in one order, so that none waits for ever
                if link.receiver == rank:
                    values = link.receive(TESTS, samples, waits=True)[1]
                    own |= zip((one.name for one in link.crossings), values(), strict=True)
            outputs = net.compute(own)
            for link in links:
                if link.sender == rank:
                    link.send(TESTS, [outputs[one.name] for one in link.crossings], waits=True)
        return outputs

    def total_means(self, sums: Mapping[str, Tensor], count: int) -> dict[str, Tensor]:
        """Return the means over batches of all outputs, of which each stage has its own; losses add up."""
        own = {key: [list(value.shape), value.ndim == 0] for key, value in sums.items()}
        owned = self.world.gather(own, "the outputs of a test")
        means: dict[str, Tensor] = {}
        for rank, outputs in enumerate(owned):
            for key in sorted(outputs):
                row = torch.zeros(outputs[key][0], dtype=torch.float64)
                if rank == self.world.rank:
                    row.copy_(sums[key] / count)
                with self.world.watched("the outputs of a test"):
                    distributed.broadcast(row, rank, group=self.world.group("tests"))
                means[key] = means[key] + row if key in means else row
        return means


def _is_number(value: ir.Value) -> bool:
    return value.shape is not None and not len(value.shape)


class PipelineProgram(StepProgram):
    """The tasks of the updates of one stage.

    Args:
        job: The Job, for its losses and for messages.
        passes: The passes of the stage; it holds as many batches as the ranks say.
        updater: Changes its parameters.
        engine: Where tasks run.
        ranks: The stages.
    """

    def __init__(
        self, job: Job, passes: NetPasses, updater: Updater, *, engine: Engine, ranks: PipelineRanks
    ) -> None:
        super().__init__(job, passes, updater, engine=engine, ranks=ranks)
        self._pipeline, self._num_passes = ranks, ranks.display_passes
        received = {one.name for link in ranks.received for one in link.crossings}
        graph = passes.net.graph
        self._fed = [value.name or "" for value in graph.inputs if value.name not in received]
        self._counted = counted_losses(graph, self._fed, ranks.partition.dtype)
        self._batches = [Variable(f"micro-batch {number}") for number in range(self._num_passes)]
        self._counts = Variable("counts of labels")
        self._parts: list[Part] = []
        self._given: list[dict[str, Tensor]] = []
        self._weights: dict[int, dict[str, Tensor]] = {}
        self._shown: dict[str, Tensor] = {}

    @property
    def variables(self) -> list[Variable]:
        """All that tasks of the program change."""
        boxes = [one for link in self._pipeline.links for one in link.variables.values()]
        return [*super().variables, *self._batches, self._counts, *boxes]

    def push(self, step: int, part: Part) -> Completion[StepResult | None]:
        """Take a micro-batch; after the last one of the batch push all passes of this stage."""
        given: dict[str, Tensor] = {}
        variable = self._batches[part.number]
        changed = [variable, self._counts] if self._counted else [variable]
        taken: Completion[Any] = self._engine.push(
            partial(self._take, part, given),
            part.variables,
            changed,
            lane=COMPUTE,
            name=f"take {step}{_suffix(part)}",
        )
        self._given.append(given)
        self._parts.append(replace(part, inputs=given, variables=changed, adds=part.number > 0))
        if len(self._parts) < self._num_passes:
            return taken
        size, rank = self._pipeline.world.size, self._pipeline.world.rank
        for kind, number in passes_of(self._pipeline.order, rank, size, self._num_passes):
            push = self._push_forward if kind == FORWARD else self._push_backward
            self._last = push(step, self._parts[number], self._given[number])
        self._parts, self._given = [], []
        return self._pipeline.push_means(step, self._begun, self._result)

    def _push_forward(self, step: int, part: Part, given: dict[str, Tensor]) -> Completion[Any]:
        place, received = part.number % (self.passes.num_held + 1), []
        for link in self._pipeline.received:
            received.append(link.variable(FORWARD, place))
            self._push_receive(step, part, link, FORWARD, received[-1], partial(self._enter, link, given))
        place = part.number % self.passes.num_held
        boxes = [link.variable(FORWARD, place) for link in self._pipeline.sent]
        ended = self.passes.push_forward(
            step,
            replace(part, variables=[*part.variables, *received]),
            partial(self._finish, step, part),
            writes=[self._begun, *boxes],
            suffix=_suffix(part),
        )
        for link, box in zip(self._pipeline.sent, boxes, strict=True):
            self._push_send(step, part, link, FORWARD, box)
        return ended

    def _push_backward(self, step: int, part: Part, given: dict[str, Tensor]) -> Completion[Any]:
        received = []
        for link in self._pipeline.sent:
            if link.moved(BACKWARD):
                received.append(link.variable(BACKWARD, part.number % 2))
                self._push_receive(
                    step, part, link, BACKWARD, received[-1], partial(self._enter_gradients, link, part)
                )
        links = [link for link in self._pipeline.received if link.moved(BACKWARD)]
        boxes = [link.variable(BACKWARD, part.number % 2) for link in links]
        ended = self.passes.push_backward(
            step,
            {_suffix(part): part},
            done=partial(self._return_gradients, links, given),
            above=self._gradients_of,
            reads=received,
            writes=boxes,
        )
        for link, box in zip(links, boxes, strict=True):
            self._push_send(step, part, link, BACKWARD, box)
        return ended

    def _push_send(self, step: int, part: Part, link: Link, direction: str, box: Variable) -> None:
        def begin() -> Work | None:
            return link.send(direction, link.boxes.pop((direction, part.number)), waits=False)

        name = f"send {direction} {step}{_suffix(part)}, stages {link.sender} and {link.receiver}"
        link.channels[direction].push(begin, box, name=name)

    def _push_receive(
        self,
        step: int,
        part: Part,
        link: Link,
        direction: str,
        box: Variable,
        enter: Callable[[list[Tensor]], None],
    ) -> None:
        on_way: list[Callable[[], list[Tensor]]] = []

        def begin() -> Work | None:
            work, values = link.receive(direction, part.samples, waits=False)
            on_way.append(values)
            return work

        name = f"receive {direction} {step}{_suffix(part)}, stages {link.sender} and {link.receiver}"
        link.channels[direction].push(begin, box, end=lambda: enter(on_way.pop()()), name=name)

    # What the tasks do.

    def _take(self, part: Part, given: dict[str, Tensor]) -> None:
        """Copy what the stage reads of a micro-batch: the loader fills its tensors again too soon."""
        device, batch = self.passes.where.device, self._pipeline.batch
        given |= {name: part.inputs[name].to(device, copy=True) for name in self._fed}
        counts = [count for loss in self._counted for count in loss.count(given)]
        if part.number and counts:
            counts = [own + before for own, before in zip(counts, batch.counts, strict=True)]
        if self._counted:
            batch.counts = counts

    def _enter(self, link: Link, given: dict[str, Tensor], values: list[Tensor]) -> None:
        for one, value in zip(link.crossings, values, strict=True):
            given[one.name] = value.requires_grad_() if one.is_trained else value

    def _enter_gradients(self, link: Link, part: Part, gradients: list[Tensor]) -> None:
        link.boxes[BACKWARD, part.number] = gradients

    def _finish(self, step: int, part: Part, done: StagePass) -> None:
        """Put what the stage made on its way; after the last micro-batch begin the update."""
        net, phase, count = self.passes.net, self._job.phases["train"], self._num_passes
        outputs = dict(zip(net.names, done.outputs, strict=True))
        self._pipeline.batch.end()
        for link in self._pipeline.sent:
            link.boxes[FORWARD, part.number] = [outputs[one.name] for one in link.crossings]
        losses = {name: weight for name, weight in phase.losses.items() if name in outputs}
        loss = float(objective_of(outputs, losses).detach())
        if not isfinite(loss):
            raise self._not_finite(step, part, loss)
        self._weights[part.number] = {
            name: torch.full_like(outputs[name], weight / count)
            for name, weight in losses.items()
            if outputs[name].requires_grad
        }
        names = [value.name or "" for value in phase.graph.outputs]
        shown = {
            name: outputs[name].detach() / count
            for name in names
            if name in outputs and not outputs[name].ndim
        }
        done.release_outputs()
        self._sum = loss if not part.number else self._sum + loss
        self._shown = shown if not part.number else {name: self._shown[name] + shown[name] for name in shown}
        if part.number == count - 1:
            self._pipeline.measured(self._sum / count, self._shown)

    def _gradients_of(self, part: Part) -> list[Tensor | None]:
        """Return the gradients of a stage's outputs: those of its losses, and what other stages have sent."""
        total: dict[str, Tensor] = self._weights.pop(part.number)
        for link in self._pipeline.sent:
            if moved := link.moved(BACKWARD):
                gradients = link.boxes.pop((BACKWARD, part.number))
                for one, gradient in zip(moved, gradients, strict=True):
                    total[one.name] = total[one.name] + gradient if one.name in total else gradient
        return [total.get(name) for name in self.passes.net.names]

    def _return_gradients(
        self, links: Sequence[Link], given: dict[str, Tensor], part: Part, stage: Stage
    ) -> None:
        for link in links:
            tensors = [given[one.name] for one in link.moved(BACKWARD)]
            link.boxes[BACKWARD, part.number] = [
                torch.zeros_like(tensor) if tensor.grad is None else tensor.grad for tensor in tensors
            ]
        given.clear()


def _suffix(part: Part) -> str:
    return f", micro-batch {part.number}"
