"""Testing on ten views of each image: the four corners and the centre, and all of them mirrored.

As in Caffe's ``Classifier.predict(oversample=True)`` the probabilities are averaged; accuracies and losses
are those of the averages. A net with labels is cut at what it predicts, and what stands behind is computed
once for all views.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from netweave.errors import UsageError
from netweave.graph.passes.extract import Extractor
from netweave.runtime.backends.torch import TorchNet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import onnx_ir as ir

    from netweave.graph import Graph
    from netweave.job import Phase

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
        found = {}
        for name, axis in self.predictions.items():
            stacked = torch.stack([view[name] for view in views])
            if axis is None:
                found[name] = stacked.mean(0)
            else:  # the logarithm of probabilities is a logit whose softmax they are
                found[name] = stacked.softmax(axis + 1).mean(0).log()
        return found


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
