"""Passes of training over batches."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import onnx_ir as ir
import torch

from netweave.errors import UnsupportedError, UsageError
from netweave.graph import Graph
from netweave.graph.passes.extraction import Extractor
from netweave.runtime.backends.torch import TorchNet
from netweave.runtime.backends.torch.device import check_bfloat16
from netweave.runtime.backends.torch.stages import Stage, StagePass, run_backward, run_stage
from netweave.runtime.engine import Completion, Engine, Variable

if TYPE_CHECKING:
    from netweave.job import Job, Phase
    from netweave.training.checkpoint_file import Checkpoint
    from netweave.training.optim.rule import FlatLayout
    from netweave.training.parallel.world import World


# Every slice of the parameters is a variable of the engine, and so is its gradient. Forward of a stage
# reads its slices, backward writes their gradients: what changes a slice or uses a gradient names the same
# variables, and the engine keeps the order (decision 0136).

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
        adds: Whether its gradients are added to those of the pass before.
    """

    number: int
    inputs: Mapping[str, torch.Tensor]
    variables: Sequence[Variable]
    first: int
    samples: int
    adds: bool = False


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
        num_held: Batches whose activations are there at the same time: so many forwards may be pushed before
            the backward of the first.

    Attributes:
        net: The net.
        stages: The stages.
        where: Where and how they compute.
        num_held: Batches whose activations are there at the same time.
        engine: Where tasks run.
        parameters: A variable for each slice.
        gradients: A variable for the gradient of each slice.
        state: The variable of what forward passes change: moving statistics, and what nodes keep.
        ended_s: When the last pass through a stage ended, by ``perf_counter``.
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
        num_held: int = 1,
    ) -> None:
        self.net, self.stages, self.where, self.num_held = net, tuple(stages), where, num_held
        self._of_device = "" if where.number is None else f" on {where}"
        slices = range(len(layout.slices))
        self.parameters = [Variable(f"slice {number}{self._of_device}") for number in slices]
        self.gradients = [Variable(f"gradient of slice {number}{self._of_device}") for number in slices]
        self.state = Variable(f"statistics{self._of_device}")
        self.ended_s = 0.0
        self.engine, self._timed = engine, timed
        held = range(num_held)
        self._activations = [
            [
                Variable(f"activations {number} of stage {stage.index}{self._of_device}")
                for stage in self.stages
            ]
            for number in held
        ]
        of_key = {key: layout.slices_of(key) for key in layout.offsets}
        self._read = [_numbers(of_key, stage.reads) for stage in stages]
        self._completed = [_numbers(of_key, stage.completes) for stage in stages]
        self._tensors = [[net.store[key].tensor for key in stage.completes] for stage in stages]
        self._passes: list[list[StagePass | None]] = [[None] * len(self.stages) for _ in held]
        self._above: list[list[torch.Tensor | None]] = [[] for _ in held]

    @property
    def variables(self) -> list[Variable]:
        """All that tasks of the passes change."""
        return [*self.parameters, *self.gradients, *self.activations, self.state]

    @property
    def activations(self) -> list[Variable]:
        """Variables that each backward writes, also one that gives no parameter a gradient."""
        return [*chain.from_iterable(self._activations)]

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
        activations = self._activations[part.number % self.num_held]
        for stage in self.stages:
            before = activations[stage.index - 1 : stage.index] if stage.index else []
            batch = part.variables if stage.takes_batch else ()
            is_last = stage is self.stages[-1]
            completion = self.engine.push(
                self._measured(partial(self._forward, step, part, stage, finish if is_last else None)),
                [*before, *batch, *(self.parameters[number] for number in self._read[stage.index])],
                [
                    activations[stage.index],
                    self.state,
                    *(self.gradients[number] for number in self._completed[stage.index]),
                    *(writes if is_last else ()),
                ],
                lane=self.where.lane,
                name=self._name("forward", step, stage) + suffix,
            )
        assert completion is not None
        return completion

    def push_backward(
        self,
        step: int,
        parts: Mapping[str, Part],
        *,
        done: Callable[[Part, Stage], None] = lambda part, stage: None,
        above: Callable[[Part], Sequence[torch.Tensor | None]] | None = None,
        reads: Sequence[Variable] = (),
        writes: Sequence[Variable] = (),
    ) -> Completion[Any]:
        """Push backward of the batches whose forwards were pushed last, stage by stage; return its end.

        Args:
            step: Updates done before.
            parts: The batches, by the suffix of their tasks' names.
            done: Called after the backward of a batch through a stage, in its task: it may take the gradients
                of the parameters that the stage completes.
            above: Returns the gradients of the net's outputs, which ``finish`` has then released; None where
                it has made them one objective.
            reads: What ``above`` looks at.
            writes: What ``done`` changes.
        """
        completion: Completion[Any] | None = None
        for stage in reversed(self.stages):
            completed = [self.gradients[number] for number in self._completed[stage.index]]
            for suffix, part in parts.items():
                activations = self._activations[part.number % self.num_held]
                behind = activations[stage.index + 1 : stage.index + 2]
                batch = part.variables if stage.takes_batch and self.num_held == 1 else ()
                completion = self.engine.push(
                    self._measured(partial(self._backward, part, stage, done, above)),
                    [
                        *behind,
                        *batch,
                        *reads,
                        *(self.parameters[number] for number in self._read[stage.index]),
                    ],
                    [activations[stage.index], *completed, *writes],
                    lane=self.where.lane,
                    name=self._name("backward", step, stage) + suffix,
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
        if not part.adds:
            for tensor in self._tensors[stage.index]:
                tensor.grad = None
        if not stage.module.training:
            stage.module.train()
        net, where = self.net, self.where
        if net.draws is not None:
            net.draws.at(seed=where.seed, step=step, first=part.first, samples=part.samples)
        passes = self._passes[part.number % self.num_held]
        before = passes[stage.index - 1] if stage.index else None
        if before is None:
            # the loader fills the tensors of a batch anew before the backward of one that is held
            own = {
                name: tensor.to(where.device, copy=self.num_held > 1) for name, tensor in part.inputs.items()
            }
            given = net.placed(own)
        else:
            given = before.outputs
        with torch.autocast(where.device.type, torch.bfloat16, enabled=where.mixed):
            done = run_stage(net, stage, given)
        if before is not None:
            before.release_outputs()
        passes[stage.index] = done
        result = None if finish is None else finish(done)
        self.ended_s = perf_counter()
        return result

    def _backward(
        self,
        part: Part,
        stage: Stage,
        end: Callable[[Part, Stage], None],
        above: Callable[[Part], Sequence[torch.Tensor | None]] | None,
    ) -> None:
        held = part.number % self.num_held
        done = self._passes[held][stage.index]
        assert done is not None
        if stage is self.stages[-1] and above is not None:
            self._above[held] = run_backward(done, above(part))
        elif stage is self.stages[-1]:
            self._above[held] = run_backward(done, [], objective=done.outputs[0])
        else:
            self._above[held] = run_backward(done, self._above[held])
        self._passes[held][stage.index] = None
        end(part, stage)
        self.ended_s = perf_counter()


def objective_of(outputs: Mapping[str, torch.Tensor], losses: Mapping[str, float]) -> torch.Tensor:
    """Return the weighted sum of the losses."""
    terms = [weight * outputs[name].sum() for name, weight in losses.items()]
    return torch.stack(terms).sum() if terms else torch.zeros(())


def _numbers(of_key: Mapping[str, Sequence[int]], keys: Sequence[str]) -> list[int]:
    """Return the slices that hold elements of some parameters."""
    return sorted({number for key in keys for number in of_key.get(key, ())})


# As in Caffe's ``Classifier.predict(oversample=True)`` the probabilities are averaged; accuracies and
# losses are those of the averages. A net with labels is cut at what it predicts, and what stands behind is
# computed once for all views.

WINDOWS = ("top left", "top right", "bottom left", "bottom right", "centre")
VIEWS = tuple((where, mirrored) for mirrored in (False, True) for where in WINDOWS)
"""The ten views in Caffe's order: where the window is, and whether it is mirrored."""

LOGITS = {"SoftmaxWithLoss", "Accuracy"}
"""What takes predictions before the softmax."""


def viewed(phase: Phase, where: str, *, mirrored: bool) -> Phase:
    """Return a phase whose images are one view of each.

    Raises:
        UsageError: Its data are not cropped, so that there is but one view.
    """
    first, *rest = phase.data
    kinds = [row["kind"] for row in first.transforms]
    if "crop" not in kinds:
        raise UsageError(
            f"{first.place}: ten crops need a crop size smaller than the images; set crop_size in the "
            "transform_param of the layer"
        )
    steps: list[Mapping[str, object]] = []
    for row in first.transforms:
        if row["kind"] == "crop":
            steps.append({**row, "where": where})
            steps.extend([{"kind": "mirror", "probability": 1.0}] * mirrored)
        elif row["kind"] != "mirror":
            steps.append(row)
    return replace(phase, data=(replace(first, transforms=tuple(steps)), *rest))


@dataclass(frozen=True, slots=True)
class Cut:
    """A net cut where its predictions meet the labels.

    Attributes:
        predictions: Names of the values that views are averaged of, with the axis of the classes where
            they are taken before the softmax, else None.
        tail: What stands behind, from these values and the labels to outputs; None if there is nothing.
        labels: Inputs of the tail that do not depend on the view.
    """

    predictions: Mapping[str, int | None]
    tail: Graph | None
    labels: tuple[str, ...] = ()

    def averaged(self, views: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        """Return the predictions averaged over the views of a batch, as the tail takes them."""
        means = {}
        for name, axis in self.predictions.items():
            stacked = torch.stack([view[name] for view in views])
            if axis is None:
                means[name] = stacked.mean(0)
            else:  # the logarithm of probabilities is a logit whose softmax they are
                means[name] = stacked.softmax(axis + 1).mean(0).log()
        return means


def cut_at_labels(graph: Graph, labels: Sequence[str]) -> Cut:
    """Cut a net where its predictions meet the labels.

    Args:
        graph: The net.
        labels: Names of the inputs that are no images.
    """
    given = [value for value in graph.inputs if value.name in labels]
    behind: set[ir.Value] = set(given)
    tail: list[ir.Node] = []
    for node in graph.nodes:
        if any(value in behind for value in node.inputs):
            behind.update(node.outputs)
            tail.append(node)
    ahead = {
        value: None
        for node in tail
        for value in node.inputs
        if value is not None and value not in behind and value.producer() is not None
    }
    predictions = {value.name or "": _axis(value, tail) for value in ahead}
    outputs = [value for value in graph.outputs if value in behind and value.producer() is not None]
    plain: dict[str, int | None] = {value.name or "": None for value in graph.outputs if value not in behind}
    if not outputs:
        return Cut(plain, None)
    names = tuple(value.name or "" for value in given)
    part = Extractor(graph).extract(
        inputs=[*predictions, *names], outputs=[value.name or "" for value in outputs]
    )
    return Cut({**plain, **predictions}, part, names)


def _axis(value: ir.Value, tail: Sequence[ir.Node]) -> int | None:
    """Return the axis of the classes where a value is taken before the softmax."""
    takers = [node for node in tail if value in node.inputs]
    maker = value.producer()
    if maker is None or maker.op_type == "Softmax" or not all(node.op_type in LOGITS for node in takers):
        return None
    return max(node.attributes.get_int("axis", 1) for node in takers)


def tail_net(cut: Cut, device: torch.device, dtype: torch.dtype) -> TorchNet | None:
    """Return what stands behind a cut as a net."""
    return None if cut.tail is None else TorchNet(cut.tail).eval().to(device).to(dtype)


DTYPES: dict[torch.dtype, type[np.floating[Any]]] = {torch.float32: np.float32, torch.float64: np.float64}
"""The types of numbers to train in."""

PRECISIONS = ("f32", "bf16")
"""What convolutions and matrix products may be computed in."""

ALGORITHMS = ("bp", "bptt", "cd")
"""What gradients may be computed by: through time those of the unrolled graph, by contrastive divergence
those of the free energies in the training net."""


def check_can_train(job: Job, dtype: torch.dtype, precision: str, device: torch.device) -> None:
    """Refuse what no run can do, before anything is made.

    Raises:
        UsageError: The net has no loss, or precision or type are none that can be computed in.
        UnsupportedError: The Job wants an algorithm that there is not.
    """
    if job.algorithm not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        raise UnsupportedError(
            f"{job.name}: the algorithm {job.algorithm!r} is not supported, expected one of {known}"
        )
    if not job.phases["train"].losses:
        raise UsageError(f"{job.name}: the training net has no loss, so it cannot be trained")
    if precision not in PRECISIONS:
        raise UsageError(f"precision is {precision!r}, expected {' or '.join(PRECISIONS)}")
    if precision == "bf16":
        check_bfloat16(device)
    if dtype not in DTYPES:
        raise UsageError(f"cannot train in {dtype}, expected {', '.join(map(str, DTYPES))}")


def saved_slice_elements(checkpoint: Checkpoint | None) -> int | None:
    """Return the size of a slice in the run that goes on: sums over devices round by it."""
    layout = checkpoint.state.get("layout") if checkpoint else None
    return int(layout["slice_elements"]) if layout else None


def choose_seed(job: Job, asked: int | None, world: World | None) -> int:
    """Return the seed of a run: what is asked for, the Job's, or a fresh one, the same for all ranks."""
    wanted = job.seed if asked is None else asked
    if wanted is not None:
        return wanted
    fresh = secrets.randbits(31)
    return fresh if world is None else int(world.keep(lambda: fresh, "seed"))


def choose_run_name(world: World | None) -> str:
    """Return a name for a run that begins: a fresh one, the same for all ranks and restarts."""
    return secrets.token_hex(8) if world is None else world.run
