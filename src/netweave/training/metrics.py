"""Metrics of a whole pass over a test that are no means over its batches: average precision of boxes.

A phase names one in ``Phase.metric``. To add one: a class under ``@metric("kind")``, made of its settings and
the graph of the phase.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from netweave.errors import UsageError
from netweave.training.boxes import Detections, Labels, find_boxes, score

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from netweave.graph import Graph
    from netweave.job import Phase

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
        found = find_boxes(self._graph, {name: arrays[name] for name in self.outputs}, **self._limits)
        rows = np.column_stack([found.image, found.label, found.score, found.corners])
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
        found = Detections(numbers[:, 0], numbers[:, 1], rows[:, 2], rows[:, 3:])
        scores = score(labels, found, iou=0.5, least_score=0.25)
        mean = scores.mean
        return {
            "mAP@0.5": (mean.ap_voc,),
            "mAP@0.5 (11 points)": (mean.ap_11,),
            "mAP@[.5:.95]": (mean.ap_coco,),
            **{f"AP@0.5 {row.name}": (row.ap_voc,) for row in scores.classes},
        }


def _is_image(value: Any) -> bool:
    return value.shape is not None and len(value.shape) == 4
