"""A graph as it predicts: without dropout, copies, losses, metrics and labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netweave.graph import DOMAIN, attributes_of, effects_of, known_shape
from netweave.graph.passes.rewriting import Pass, Rewriter, remove_unneeded

if TYPE_CHECKING:
    from collections.abc import Mapping

    import onnx_ir as ir

    from netweave.graph import Graph


@dataclass(frozen=True, slots=True)
class Loss:
    """The predictions that a loss of the domain ``netweave`` reads.

    Attributes:
        inputs: Positions of the predictions among its inputs.
        activation: What it applies to them first, as an ONNX operator; over its ``axis`` if it has one.
    """

    inputs: tuple[int, ...] = (0,)
    activation: str | None = None


LOSSES = {
    "CTCLoss": Loss(),
    "CenterLoss": Loss(),
    "ContrastiveLoss": Loss(inputs=(0, 1)),
    "EuclideanLoss": Loss(),
    "HingeLoss": Loss(),
    "InfogainLoss": Loss(activation="Softmax"),
    "MultiBoxLoss": Loss(inputs=(0, 1)),
    "MultinomialLogisticLoss": Loss(),
    "RegionLoss": Loss(inputs=()),  # beside a head of the same values, which predicts
    "SigmoidCrossEntropyLoss": Loss(activation="Sigmoid"),
    "SmoothL1Loss": Loss(),
    "SoftmaxWithLoss": Loss(activation="Softmax"),
    "YoloLoss": Loss(inputs=()),
}
"""Losses that give a number; to add one, add a row."""

METRICS = frozenset({"Accuracy"})
"""Operators that judge a prediction and give a number, or one for each class."""

ACTIVATIONS = {
    "CTCOutput": "Softmax",
    "LinearRegressionOutput": "Identity",
    "LogisticRegressionOutput": "Sigmoid",
    "MAERegressionOutput": "Identity",
    "MakeLoss": "Identity",
    "SVMOutput": "Identity",
}
"""Operators that end a net with a gradient of their own, and their forward as an ONNX operator."""


@Pass
def to_inference(graph: Graph) -> None:
    """Give a graph the form in which it predicts.

    - Dropout and Identity are gone; the name of a value that was removed is an alias of the same value.
    - BatchNormalization uses its stored statistics.
    - An output operator (MXNet's SoftmaxOutput) is its forward, without the label.
    - A loss is gone, and in its place among the net's outputs stands what it predicts: the softmax of
      Caffe's SoftmaxWithLoss, the sigmoid of SigmoidCrossEntropyLoss, the first input of the others
      (both of ContrastiveLoss). A metric is gone; its first input is an output only if there is no other.
    - What only these needed is gone, labels among the inputs included.

    Other outputs stay, in order, under their names; a value is an output once.
    """
    had_readers = [value for value in graph.model.graph.inputs if value.uses()]
    rewriter = Rewriter(graph)
    predictions: dict[ir.Value, list[ir.Value]] = {}
    for node in list(graph.nodes):
        if node.domain == DOMAIN and node.op_type in LOSSES:
            if node.outputs[0].is_graph_output():
                predictions[node.outputs[0]] = _predictions(rewriter, node)
        elif node.domain == DOMAIN:
            _end(rewriter, node)
        elif node.domain == "" and node.op_type in _STANDARD:
            _STANDARD[node.op_type](rewriter, node)
    graph.model.graph.outputs[:] = _new_outputs(graph, predictions)
    remove_unneeded(graph, keep=lambda node: bool(effects_of(node)))
    outputs = set(graph.outputs)
    for value in had_readers:
        if not value.uses() and value not in outputs:
            graph.model.graph.inputs.remove(value)
            graph.declared.pop(value.name or "", None)


def inference_form(graph: Graph) -> Graph:
    """Return a graph as it predicts: itself, where ``to_inference`` would change nothing, or a changed copy.

    To copy a net of tens of thousands of nodes takes a second. What is returned is not to be changed.
    """
    return graph if _predicts(graph) else to_inference(graph)


def _predicts(graph: Graph) -> bool:
    """Return whether ``to_inference`` would change nothing."""
    if any(_is_of_training(node) for node in graph.nodes):
        return False
    if len(set(graph.outputs)) < len(graph.outputs):
        return False
    # in a graph without cycles all nodes are needed if something needs each
    return all(any(map(_is_needed, node.outputs)) or effects_of(node) for node in graph.nodes)


def _is_needed(value: ir.Value) -> bool:
    return any(use.node.graph is not None for use in value.uses()) or value.is_graph_output()


def _is_of_training(node: ir.Node) -> bool:
    """Return whether ``to_inference`` may change a node or take it out."""
    if node.domain == DOMAIN:
        return node.op_type in {*LOSSES, *METRICS, *ACTIVATIONS, "SoftmaxOutput"}
    if node.op_type == "BatchNormalization":
        return bool(node.attributes.get_int("training_mode", 0))
    return node.op_type in _STANDARD


def _end(rewriter: Rewriter, node: ir.Node) -> None:
    """Turn an output operator into its forward."""
    if node.op_type == "SoftmaxOutput":
        _softmax(rewriter, node)
    elif node.op_type in ACTIVATIONS:
        new = rewriter.replace([node], ACTIVATIONS[node.op_type], [node.inputs[0]], {})
        if new.op_type == "Identity":
            _drop_copy(rewriter, new)


def _softmax(rewriter: Rewriter, node: ir.Node) -> None:
    """MXNet softmax_output-inl.h: over axis 1, over the last, or over all but the first."""
    attributes, x = attributes_of(node), node.inputs[0]
    shape = known_shape(x)
    if attributes.get("multi_output"):
        rewriter.replace([node], "Softmax", [x], {"axis": 1})
    elif attributes.get("preserve_shape") or (shape is not None and len(shape) == 2):
        rewriter.replace([node], "Softmax", [x], {"axis": -1})
    else:
        flat = rewriter.insert(node, "Flatten", [x], {"axis": 1})
        rows = rewriter.insert(node, "Softmax", flat.outputs, {"axis": 1})
        sizes = rewriter.insert(node, "Shape", [x])
        rewriter.replace([node], "Reshape", [rows.outputs[0], sizes.outputs[0]], {})


def _drop_copy(rewriter: Rewriter, node: ir.Node) -> None:
    """Remove an Identity or a Dropout in test mode; where it cannot be, leave an Identity."""
    source = node.inputs[0]
    if source is None or _gives_more(node):
        return
    if not rewriter.bypass(node, source) and node.op_type != "Identity":
        rewriter.replace([node], "Identity", [source], {})


def _use_statistics(rewriter: Rewriter, node: ir.Node) -> None:
    """Take BatchNormalization out of training mode; the new statistics are not computed."""
    if not node.attributes.get_int("training_mode", 0) or _gives_more(node):
        return
    kept: dict[str, Any] = {"epsilon": node.attributes.get_float("epsilon", 1e-5)}
    rewriter.replace([node], "BatchNormalization", list(node.inputs), kept)


def _gives_more(node: ir.Node) -> bool:
    """Return whether more than the first output of a node is used: a mask, new statistics."""
    return any(value.uses() or value.is_graph_output() for value in node.outputs[1:])


_STANDARD = {
    "BatchNormalization": _use_statistics,
    "Dropout": _drop_copy,
    "Identity": _drop_copy,
}


def _predictions(rewriter: Rewriter, node: ir.Node) -> list[ir.Value]:
    """Return what a loss takes for predictions, activated as it does."""
    loss = LOSSES[node.op_type]
    values = [node.inputs[index] for index in loss.inputs]
    if loss.activation is not None:
        axis = {"axis": node.attributes.get_int("axis", 1)} if loss.activation == "Softmax" else {}
        name = f"{node.outputs[0].name}/{loss.activation}"
        prediction = rewriter.insert(node, loss.activation, values, axis, output=name).outputs[0]
        if len(node.outputs) > 1:  # Caffe's second top: the same prediction
            rewriter.take_over(node.outputs[1], prediction)
        return [prediction]
    return [value for value in values if value is not None]


def _new_outputs(graph: Graph, predictions: Mapping[ir.Value, list[ir.Value]]) -> list[ir.Value]:
    """Return the outputs with predictions in the place of losses and metrics, each once."""
    outputs: dict[ir.Value, None] = {}
    judged: dict[ir.Value, None] = {}
    for value in graph.outputs:
        node = value.producer()
        if node is not None and node.domain == DOMAIN and node.op_type in METRICS:
            judged.update(dict.fromkeys(value for value in node.inputs[:1] if value is not None))
        else:
            outputs.update(dict.fromkeys(predictions.get(value, [value])))
    return list(outputs or judged)
