"""Losses and MXNet's outputs, as they are where a net predicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.onnx.functions.table import FunctionNode, body, without
from netweave.formats.onnx.functions.tape import Tensor, op

if TYPE_CHECKING:
    from collections.abc import Sequence

without(
    "Accuracy",
    "CTCLoss",
    "CTCOutput",
    "ContrastiveLoss",
    "EuclideanLoss",
    "HingeLoss",
    "InfogainLoss",
    "MultinomialLogisticLoss",
    "SigmoidCrossEntropyLoss",
    "SmoothL1Loss",
    "SoftmaxWithLoss",
    reason="it judges a net by labels; a net that predicts has none",
)


@body("LinearRegressionOutput", "MAERegressionOutput", "SVMOutput", "MakeLoss")
def passed_on(node: FunctionNode) -> Sequence[Tensor]:
    """Return the input; the loss is only in the gradient."""
    return [op("Identity", node.inputs[0])]


@body("LogisticRegressionOutput")
def sigmoid(node: FunctionNode) -> Sequence[Tensor]:
    """The sigmoid."""
    return [op("Sigmoid", node.inputs[0])]


@body("SoftmaxOutput")
def softmax(node: FunctionNode) -> Sequence[Tensor]:
    """Softmax over axis 1, the last, or all but the first."""
    x = node.inputs[0]
    if node.settings.get("multi_output"):
        return [op("Softmax", x, axis=1)]
    if node.settings.get("preserve_shape"):
        return [op("Softmax", x, axis=-1)]
    return [op("Reshape", op("Softmax", op("Flatten", x, axis=1), axis=1), x.sizes())]
