"""The objective of a compiled model, as a net: predictions, losses, penalties.

The configuration has the model's own operations, and those that its losses are made of: it is lowered as a
whole by the reader's rules, once as the net is trained and once as it is judged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from netweave.errors import UsageError
from netweave.formats.keras.layers.objectives import MASK, WEIGHT
from netweave.formats.keras.reader import lower, masked_outputs
from netweave.graph import Graph
from netweave.keras import ops, regularizers
from netweave.keras.layer import CallGraph, Layer, Network, object_for
from netweave.keras.layers.signatures import Input
from netweave.keras.losses import Loss
from netweave.keras.losses.functions import apply_mask
from netweave.keras.operation import KerasTensor, Operation, names_of_training, unique_name

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Records:
    """The parts of a record, as a fit is given them.

    Attributes:
        labels: Sizes of the label of each output.
        weights: Sizes of the weight of each output's loss; None where there is none.
    """

    labels: tuple[Shape, ...]
    weights: tuple[Shape | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TrainingNet:
    """A model with its losses, ready to be lowered.

    Attributes:
        inputs: Names of the inputs in the order of the parts of a record: data, labels, weights.
        loss: Name of what is made small.
        losses: Names of the losses by output, where there are several.
        predictions: Names of the predictions by output.
        labels: Names of the labels by output.
        weights: Names of the weights by output; None where there are none.
        masks: Names of the masks by output; None where all steps count.
        label_shapes: Sizes of the label of each output, with the batch.
        config: The configuration.
        frozen: Keys of arrays that no fit changes.
        undecayed: Keys of arrays that have no weight decay.
    """

    inputs: tuple[str, ...]
    loss: str
    losses: Mapping[str, str]
    predictions: tuple[str, ...]
    labels: tuple[str, ...]
    weights: tuple[str | None, ...]
    masks: tuple[str | None, ...]
    label_shapes: tuple[tuple[int | None, ...], ...]
    config: Mapping[str, Any]
    frozen: frozenset[str]
    undecayed: frozenset[str]

    def graph(self, shapes: Mapping[str, Sequence[int]]) -> tuple[Graph, dict[str, str], list[str]]:
        """Return the Graph to train, no metrics of its own, and the value to make small."""
        return self.lowered(training=True), {}, [self.loss]

    def lowered(self, *, training: bool) -> Graph:
        """Return the Graph, as it is trained or as it is judged."""
        graph = lower_model(self.config, training=training)
        for key in self.frozen & graph.parameters.keys():
            graph.parameters[key] = replace(graph.parameters[key], lr_mult=0.0)
        for key in self.undecayed & graph.parameters.keys():
            graph.parameters[key] = replace(graph.parameters[key], decay_mult=0.0)
        return graph


def lower_model(
    config: Mapping[str, Any], *, training: bool = False, arrays: Mapping[str, np.ndarray] | None = None
) -> Graph:
    """Return the Graph of a functional configuration; all of its inputs are float32, as batches are.

    Args:
        config: The configuration.
        training: Whether layers do what they do while a net is trained.
        arrays: Values of all arrays by key; none if not given.
    """
    place = f"model {config['name']!r}"
    return lower(_with_float_inputs(config), place=place, training=training, arrays=arrays)


def _with_float_inputs(config: Mapping[str, Any]) -> dict[str, Any]:
    inputs = {row[0] for row in config["input_layers"]}
    layers = [
        {**layer, "config": {**layer["config"], "dtype": "float32"}} if layer["name"] in inputs else layer
        for layer in config["layers"]
    ]
    return {"class_name": "Functional", "config": {**config, "layers": layers}}


def training_net(
    network: Network,
    losses: Sequence[Loss | None],
    factors: Sequence[float],
    records: Records,
    excluded: Sequence[str] = (),
    frozen: Collection[Layer] | None = None,
) -> TrainingNet:
    """Return a model with its losses.

    Args:
        network: The model.
        losses: The loss of each output; None for an output without one.
        factors: The factor on each loss.
        records: The parts of a record.
        excluded: Parts of the names of arrays that have no weight decay.
        frozen: Layers that no gradient changes; None for those that are not trainable now.

    Raises:
        UsageError: A loss cannot take labels of these sizes, or is no single number.
    """
    with names_of_training():
        labels = [Input(shape, name=unique_name("label")) for shape in records.labels]
        weights = [
            None if shape is None else Input(shape, name=unique_name("weight")) for shape in records.weights
        ]
        masks = _masks(network)
        values: dict[str, KerasTensor] = {}
        weighted: list[KerasTensor] = []
        for output, name, loss, factor, label, weight, mask in zip(
            network.outputs, network.output_names, losses, factors, labels, weights, masks, strict=True
        ):
            if loss is not None:
                values[name] = _named(_loss(loss, label, output, weight, mask), f"{name}_loss")
                weighted.append(values[name] * float(factor))
        if not values:
            raise UsageError(f"the model {network.name!r} has no loss; give compile a loss")
        total = _sum([*weighted, *_penalties(network)])
        head = _named(total, "loss")
        predictions = [_named(output, "prediction") for output in network.outputs]
        seen = [_named(label, "seen_label") for label in labels]
        given = [weight for weight in weights if weight is not None]
        seen_weights = [None if weight is None else _named(weight, "seen_weight") for weight in weights]
        inputs = [*network.inputs, *labels, *given]
        outputs = [
            head,
            *values.values(),
            *predictions,
            *seen,
            *(one for one in (*seen_weights, *masks) if one is not None),
        ]
        config = CallGraph(inputs, outputs).config(network.name)
    by_key = network.variables_by_key()
    return TrainingNet(
        inputs=tuple(tensor.name for tensor in inputs),
        loss=head.name,
        losses={name: value.name for name, value in values.items()} if len(values) > 1 else {},
        predictions=tuple(tensor.name for tensor in predictions),
        labels=tuple(tensor.name for tensor in seen),
        weights=tuple(None if one is None else one.name for one in seen_weights),
        masks=tuple(None if one is None else one.name for one in masks),
        label_shapes=tuple(label.shape for label in labels),
        config=config,
        frozen=frozenset(
            key
            for key, (layer, _) in by_key.items()
            if (not layer.trainable if frozen is None else layer in frozen)
        ),
        undecayed=frozenset(
            key for key, (_, one) in by_key.items() if any(text in one.path for text in excluded)
        ),
    )


def _masks(network: Network) -> list[KerasTensor | None]:
    """Return the mask of each output, as 0 and 1; None where all steps count."""
    makes_masks = any(
        layer.class_name == "Masking" or layer.config.get("mask_zero") for _, layer in network.named_layers()
    ) or any("mask" in node.kwargs for node in network.call_graph.nodes)
    if not makes_masks:  # the rules need not run once more
        return [None] * len(network.outputs)
    config = network.call_graph.config(network.name)
    has_mask = masked_outputs(_with_float_inputs(config), place=f"model {network.name!r}")
    return [
        _MaskOf()(output) if masked else None
        for output, masked in zip(network.outputs, has_mask, strict=True)
    ]


def _loss(
    loss: Loss,
    label: KerasTensor,
    output: KerasTensor,
    weight: KerasTensor | None,
    mask: KerasTensor | None,
) -> KerasTensor:
    try:
        value: KerasTensor = loss(label, output, apply_mask(weight, mask, loss.reduction))
    except UsageError as error:
        raise UsageError(
            f"the loss {loss.name!r} of labels {label.shape} and predictions {output.shape}: {error}"
        ) from error
    if value.shape:
        raise UsageError(
            f"the loss {loss.name!r} is {value!r}, expected one number for a batch; take another reduction"
        )
    return value


def _named(tensor: KerasTensor, name: str) -> KerasTensor:
    identity = Operation("Identity", {}, module="keras.layers", name=unique_name(name))
    made: KerasTensor = identity(tensor)
    return made


def _sum(values: Sequence[KerasTensor]) -> KerasTensor:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def _penalties(network: Network) -> list[KerasTensor]:
    """Return the penalties of all regularizers of the model, on arrays and on what layers make."""
    penalties: list[KerasTensor] = []
    seen: set[int] = set()
    for key, (layer, variable) in network.variables_by_key().items():
        regularizer = object_for(layer, variable.spec, "regularizer", regularizers.get)
        if regularizer is not None and id(variable) not in seen:
            seen.add(id(variable))
            array = _WeightOf(key, variable.shape)(*network.outputs)
            penalties.append(regularizer(array))
    inner = {id(layer) for name, layer in network.named_layers() if "/" in name}
    for _, layer in network.named_layers():
        given = layer.config.get("activity_regularizer")
        factors = {
            key: layer.config[key] for key in ("l1", "l2") if layer.class_name == "ActivityRegularization"
        }
        regularizer = regularizers.L1L2(**factors) if factors else regularizers.get(given)
        if regularizer is None:
            continue
        if id(layer) in inner:
            raise UsageError(
                f"the activity regularizer of {layer.name!r}, a layer of a model inside the model, is not "
                "supported"
            )
        nodes = [node for node in network.call_graph.nodes if node.operation is layer]
        penalties += [_per_record(regularizer, tensor) for node in nodes for tensor in node.outputs]
    return penalties


def _per_record(regularizer: Any, tensor: KerasTensor) -> KerasTensor:
    """Return a penalty on what a layer makes, divided by the number of records (``Layer.__call__``)."""
    ones = ops.ones_like(tensor)
    of_one_record = 1
    for size in tensor.shape[1:]:
        of_one_record *= size or 1
    made: KerasTensor = regularizer(tensor) / (ops.sum(ones) / float(of_one_record))
    return made


class _WeightOf(Operation):
    """Gives an array of a layer; it is called with the outputs of the model, so that it comes after them."""

    def __init__(self, key: str, shape: Shape) -> None:
        super().__init__(WEIGHT, {"key": key}, module="netweave", name=unique_name("array"))
        self._shape = shape

    def results(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, str], ...]:
        """Return the sizes of the array."""
        return ((self._shape, "float32"),)


class _MaskOf(Operation):
    """Gives the mask of an output."""

    def __init__(self) -> None:
        super().__init__(MASK, {}, module="netweave", name=unique_name("mask"))

    def results(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, str], ...]:
        """Return the sizes of the mask: records and steps."""
        return ((args[0].shape[:2], "float32"),)
