"""Metrics of training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from netweave.errors import UsageError
from netweave.graph import Graph, layer_keys
from netweave.training.boxes import Detections, Labels, find_boxes, score
from netweave.training.boxes.scores import average_precision, judge
from netweave.training.events import Norms, NormsSeen
from netweave.training.monitor import layer_values

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from netweave.job import Job, Phase, Schedule
    from netweave.runtime.backends.torch import TorchNet


# A phase names one in ``Phase.metric``. To add one: a class under ``@metric("kind")``, made of its settings
# and the graph of the phase.

Arrays = Mapping[str, np.ndarray]
Outputs = dict[str, tuple[float, ...]]


class PhaseMetric(ABC):
    """A metric over all batches of a pass.

    Attributes:
        outputs: Names of the outputs that it looks at, which nobody else shows.
        inputs: Names of the inputs that it looks at.
    """

    outputs: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()

    @abstractmethod
    def add(self, arrays: Arrays) -> None:
        """Take a batch in: the values of ``inputs`` and ``outputs`` by name."""

    @abstractmethod
    def result(self) -> Outputs:
        """Return the numbers over all batches, by name."""


METRICS: dict[str, Callable[..., PhaseMetric]] = {}
"""The metrics by kind, as a Job names them."""

M = TypeVar("M", bound="type[PhaseMetric]")


def metric(kind: str) -> Callable[[M], M]:
    """Enter a metric in the table."""

    def enter(made: M) -> M:
        METRICS[kind] = made
        return made

    return enter


def make_metric(phase: Phase) -> PhaseMetric | None:
    """Return the metric of a phase for one pass; None if it has none.

    Raises:
        UsageError: There is no such metric.
    """
    settings = dict(phase.metric)
    if not settings:
        return None
    kind = settings.pop("kind")
    if kind not in METRICS:
        raise UsageError(f"unknown metric {kind!r}; expected one of {', '.join(METRICS)}")
    return METRICS[kind](phase.graph, **settings)


@metric("boxes")
class AveragePrecision(PhaseMetric):
    """Average precision of the boxes that a detector's heads say: Pascal VOC's two, and COCO's.

    Overlaps are those in the net's own image, which are the same as in the image before it was scaled.

    Args:
        graph: The net; its outputs but for scalars are the heads.
        truth: The input with the ground-truth boxes, see ``data.Source.boxes``.
        names: Names of the classes.
        num_images: Images of a pass; further ones only fill the last batch.
        threshold: Least score of a detection.
        overlap: Largest overlap of two detections of one class.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        truth: str,
        names: Sequence[str],
        num_images: int,
        threshold: float,
        overlap: float,
    ) -> None:
        self.outputs = tuple(value.name or "" for value in graph.outputs if _is_image(value))
        self.inputs = (truth,)
        self._graph, self._truth, self._names, self._num_images = graph, truth, tuple(names), num_images
        self._limits = {"threshold": threshold, "overlap": overlap}
        self._count = 0
        self._labels: list[np.ndarray] = []
        self._found: list[np.ndarray] = []

    def add(self, arrays: Arrays) -> None:
        """Take a batch in."""
        boxes = arrays[self._truth]
        kept = min(len(boxes), self._num_images - self._count)
        rows_found = find_boxes(self._graph, {name: arrays[name] for name in self.outputs}, **self._limits)
        rows = np.column_stack([rows_found.image, rows_found.label, rows_found.score, rows_found.corners])
        rows = rows[rows[:, 0] < kept]
        rows[:, 0] += self._count
        self._found.append(rows)
        image, row = np.nonzero(boxes[:kept, :, 0])
        self._labels.append(np.column_stack([image + self._count, boxes[image, row]]).astype(np.float64))
        self._count += kept

    def result(self) -> Outputs:
        """Return average precisions: means over the classes, then VOC's (area) of each class."""
        truth = np.concatenate([np.zeros((0, 7)), *self._labels])
        half = truth[:, 3:5] / 2
        labels = Labels(
            images=tuple(map(str, range(self._count))),
            classes=self._names,
            image=truth[:, 0].astype(np.int64),
            label=truth[:, 5].astype(np.int64),
            corners=np.concatenate([truth[:, 1:3] - half, truth[:, 1:3] + half], axis=1),
            ignored=truth[:, 6] != 0,
            crowd=np.zeros(len(truth), bool),
        )
        rows = np.concatenate([np.zeros((0, 7)), *self._found])
        numbers = rows[:, :2].astype(np.int64)
        detections = Detections(numbers[:, 0], numbers[:, 1], rows[:, 2], rows[:, 3:])
        scores = score(labels, detections, iou=0.5, least_score=0.25)
        mean = scores.mean
        return {
            "mAP@0.5": (mean.ap_voc,),
            "mAP@0.5 (11 points)": (mean.ap_11,),
            "mAP@[.5:.95]": (mean.ap_coco,),
            **{f"AP@0.5 {row.name}": (row.ap_voc,) for row in scores.classes},
        }


@metric("detections")
class ListedPrecision(PhaseMetric):
    """Average precision of the detections that a net lists itself, as SSD's ``DetectionEvaluate``.

    Args:
        graph: The net.
        detections: The output with a row (image, class, score, left, top, right, bottom) for each of them.
        truth: The input with the ground-truth boxes, see ``data.Source.truth_rows``.
        images: The input with the images.
        classes: Names of the classes by number.
        background: The number of a class that is not scored.
        overlap: Least overlap, intersection over union, with which a detection is right.
        counts_difficult: Whether difficult boxes must be found, too.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        detections: str,
        truth: str,
        images: str,
        classes: Sequence[str],
        background: int,
        overlap: float,
        counts_difficult: bool,
    ) -> None:
        self.outputs, self.inputs = (detections,), (truth, images)
        self._classes, self._background = tuple(classes), background
        self._overlap, self._counts_difficult = overlap, counts_difficult
        self._count = 0
        self._labels = [np.zeros((0, 8))]
        self._found = [np.zeros((0, 7))]

    def add(self, arrays: Arrays) -> None:
        """Take a batch in."""
        truth, images = (arrays[name] for name in self.inputs)
        for rows, kept in ((truth, self._labels), (arrays[self.outputs[0]], self._found)):
            listed = rows.reshape(-1, kept[0].shape[1]).astype(np.float64)
            listed = listed[listed[:, 0] >= 0]
            listed[:, 0] += self._count
            kept.append(listed)
        self._count += len(images)

    def result(self) -> Outputs:
        """Return means over the classes that have boxes, then the average precision (area) of each class."""
        truth, rows = np.concatenate(self._labels), np.concatenate(self._found)
        labels = Labels(
            images=tuple(map(str, range(self._count))),
            classes=self._classes,
            image=truth[:, 0].astype(np.int64),
            label=truth[:, 1].astype(np.int64),
            corners=truth[:, 3:7],
            ignored=(truth[:, 7] != 0) & (not self._counts_difficult),
            crowd=np.zeros(len(truth), bool),
        )
        numbers = rows[:, :2].astype(np.int64)
        found = Detections(numbers[:, 0], numbers[:, 1], rows[:, 2], rows[:, 3:])
        at = f"@{self._overlap:g}"
        judged = {
            name: judge(labels, found, number, iou=self._overlap)
            for number, name in enumerate(self._classes)
            if number != self._background
        }
        scored = {name: one for name, one in judged.items() if one.num_labels}
        area, points = (
            {name: average_precision(one, eleven_points=eleven) for name, one in scored.items()}
            for eleven in (False, True)
        )
        return {
            f"mAP{at}": (float(np.mean(list(area.values()))) if area else float("nan"),),
            f"mAP{at} (11 points)": (float(np.mean(list(points.values()))) if points else float("nan"),),
            **{f"AP{at} {name}": (value,) for name, value in area.items()},
        }


def _is_image(value: Any) -> bool:
    return value.shape is not None and len(value.shape) == 4


def averaged(
    batches: Iterable[Mapping[str, torch.Tensor]],
    means: Callable[[Mapping[str, torch.Tensor], int], Mapping[str, torch.Tensor]] | None = None,
) -> dict[str, tuple[float, ...]]:
    """Return the elements of each output, as means over all batches (``Solver::Test``).

    Args:
        batches: Outputs of each batch by name.
        means: Returns the means from sums and their number, where other ranks have batches too.
    """
    sums: dict[str, torch.Tensor] = {}
    count = 0
    for count, outputs in enumerate(batches, 1):  # noqa: B007 - needed behind the loop
        for key, value in outputs.items():
            sums[key] = sums[key] + value if key in sums else value
    if means is not None:
        return {key: elements(value) for key, value in means(sums, count).items()}
    return {key: elements(value / count) for key, value in sums.items()}


def measured(
    outputs: Mapping[str, torch.Tensor], batch: Mapping[str, torch.Tensor], metric: PhaseMetric | None
) -> dict[str, torch.Tensor]:
    """Show a batch to a metric; return the outputs of which means are taken."""
    if metric is None:
        return dict(outputs)
    values = {name: batch[name] for name in metric.inputs}
    values |= {name: outputs[name] for name in metric.outputs}
    metric.add({name: tensor.detach().float().cpu().numpy() for name, tensor in values.items()})
    return {name: tensor for name, tensor in outputs.items() if name not in metric.outputs}


class MeanOutputs:
    """Means of the outputs of several batches, which are taken from the device only when somebody asks."""

    def __init__(self) -> None:
        self._sums: dict[str, torch.Tensor] = {}
        self._count = 0

    def add(self, outputs: Mapping[str, torch.Tensor]) -> None:
        """Take the outputs of a batch in."""
        for name, value in outputs.items():
            self._sums[name] = self._sums[name] + value if name in self._sums else value
        self._count += 1

    def state(self) -> tuple[int, dict[str, torch.Tensor]]:
        """Return the number of batches taken in since the last ``take``, and the sums of their outputs."""
        return self._count, dict(self._sums)

    def restore(self, count: int, sums: Mapping[str, torch.Tensor]) -> None:
        """Go on where ``state`` was called."""
        self._count, self._sums = count, dict(sums)

    def take(self) -> dict[str, torch.Tensor]:
        """Return the means, and begin anew."""
        means = {name: total / self._count for name, total in self._sums.items()}
        self._sums, self._count = {}, 0
        return means


def elements(tensor: torch.Tensor) -> tuple[float, ...]:
    """Return the elements of an output."""
    return tuple(tensor.reshape(-1).tolist())


class OutputElements(Mapping[str, tuple[float, ...]]):
    """The elements of outputs by name; read from the device only when somebody asks.

    Args:
        outputs: The outputs.
    """

    def __init__(self, outputs: Mapping[str, torch.Tensor]) -> None:
        self._outputs = outputs

    def __getitem__(self, name: str) -> tuple[float, ...]:
        return elements(self._outputs[name])

    def array(self, name: str) -> np.ndarray:
        """Return an output with its axes."""
        values: np.ndarray = self._outputs[name].detach().cpu().numpy()
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self._outputs)

    def __len__(self) -> int:
        return len(self._outputs)


# SINGA calls these numbers "norm1": the sum of absolute values divided by their number (``math_blob.h``,
# Asum), of what a layer gives, of the gradient with respect to it, of parameters and of their gradients.


class NormWatch:
    """Looks at the values and gradients of the updates whose numbers are displayed.

    Args:
        graph: The training net.
        schedule: What happens when.

    Attributes:
        taps: Names of values that the net must give besides its outputs.
    """

    needs_gradients = True

    def __init__(self, graph: Graph, schedule: Schedule) -> None:
        self._schedule = schedule
        named = set(graph.values())
        # of a loss layer, which also gives an accuracy, the loss: it bears the layer's name
        self._layers = {
            layer: layer if layer in named else value for layer, value in layer_values(graph).items()
        }
        self._owners = _owners(graph)
        self.taps: Sequence[str] = list(dict.fromkeys(self._layers.values()))
        self._values: dict[str, float] = {}
        self._gradients: dict[str, float] = {}
        self._parameters: dict[str, Norms] = {}

    def is_due(self, step: int) -> bool:
        """Return whether the numbers of an update are displayed."""
        return self._schedule.is_due("display", step)

    def look(self, net: TorchNet, outputs: Mapping[str, Tensor]) -> None:
        """Look at values, in the task that computed them; at their gradients as soon as backward has them."""
        self._values = {name: _mean_absolute(outputs[name]) for name in self.taps}
        self._gradients = {}
        for name in self.taps:
            if outputs[name].requires_grad:
                outputs[name].register_hook(lambda gradient, name=name: self._note(name, gradient))

    def look_at_gradients(self, net: TorchNet) -> None:
        """Look at parameters and their gradients, between backward and the update."""
        self._parameters = {}
        for key, layer in self._owners.items():
            tensor = net.store[key].tensor
            gradient = None if tensor.grad is None else _mean_absolute(tensor.grad)
            self._parameters[key] = Norms(_mean_absolute(tensor), gradient, layer)

    def event(self, step: int) -> NormsSeen | None:
        """Return what was seen in an update; None if its numbers are not displayed."""
        if not self.is_due(step):
            return None
        layers = {
            layer: Norms(self._values[name], self._gradients.get(name), layer)
            for layer, name in self._layers.items()
        }
        return NormsSeen(step, layers, dict(self._parameters))

    def _note(self, name: str, gradient: Tensor) -> None:
        self._gradients[name] = _mean_absolute(gradient)


def norms_of(job: Job) -> list[NormWatch]:
    """Return what looks at the norms that a Job asks for, if it does."""
    wanted = job.schedule.display_norms
    return [NormWatch(job.phases["train"].graph, job.schedule)] if wanted else []


def _mean_absolute(tensor: Tensor) -> float:
    return float(tensor.detach().abs().double().mean()) if tensor.numel() else 0.0


def _owners(graph: Graph) -> dict[str, str]:
    """Return the first layer that reads each trained parameter, in the net's order."""
    owners: dict[str, str] = {}
    for node in graph.nodes:
        for value in node.inputs:
            parameter = graph.parameters.get(value.name or "") if value is not None else None
            if parameter is not None and parameter.trainable and value is not None:
                owners.setdefault(str(value.name), next(iter(layer_keys(node)), ""))
    return owners
