"""From a model of Keras to its Graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.errors import ReadError, UnsupportedError
from netweave.files import Source
from netweave.files.unknown_names import UnknownLayer, check_input_names, refuse_unknown_layers
from netweave.formats.keras.code import is_code, read_code
from netweave.formats.keras.config import MODELS, Array, LayerConfig, Model, Ref, TensorRef, parse_model
from netweave.formats.keras.context import KerasLayer, KerasNet, read_layer, tensors_of
from netweave.formats.keras.layers import READERS, REASONS
from netweave.formats.keras.layers.recurrent import KEEPS_MASK
from netweave.formats.keras.opening import Opened, open_model
from netweave.formats.lowering.channels_last import ChannelsLastLayer, Stored, Tensor
from netweave.formats.lowering.windows import check_given_sizes, unknown_sizes
from netweave.graph import BATCH, Graph, GraphBuilder, Layer, Origin
from netweave.graph.ordering import CycleError, inputs_first

MAX_DEPTH = 32
"""Models inside models beyond this depth are refused."""


def read(source: Source) -> Graph:
    """Read a model of Keras: ``.keras``, ``.h5``, its configuration in JSON beside weights, or its code."""
    if is_code(source.net):
        return read_code(source, read)
    return _Build(open_model(source), str(source.net), source.input_shapes).graph()


def lower(
    description: Mapping[str, Any],
    *,
    place: str,
    training: bool = False,
    arrays: Mapping[str, np.ndarray] | None = None,
) -> Graph:
    """Return the Graph of a configuration that a program made, in the form of Keras 3.

    Args:
        description: The configuration, as JSON values.
        place: What errors say it comes from.
        training: Whether layers do what they do while a net is trained: noise, dropout of inputs.
        arrays: Values of arrays by key; those that it lacks are drawn.

    Raises:
        SourceError: A layer cannot be read; the message names it.
    """
    build = _Build(Opened(description, None, ()), place, {}, training=training)
    build.net.values.update(arrays or {})
    return build.graph()


def masked_outputs(description: Mapping[str, Any], *, place: str) -> list[bool]:
    """Return which outputs of a configuration have a mask; see ``lower``."""
    build = _Build(Opened(description, None, ()), place, {})
    build.graph()
    return build.has_mask


class _Build:
    """A model on its way to a Graph."""

    def __init__(
        self,
        opened: Opened,
        place: str,
        input_shapes: Mapping[str, Sequence[int]],
        *,
        training: bool = False,
    ) -> None:
        self._input_shapes = input_shapes
        self._file = place
        self._weights = opened.weights
        self._arrays = {name: Stored.parameter(name, x, x.shape) for name, x in opened.arrays.items()}
        self._model = parse_model(opened.description, place=self._file)
        self._builder = GraphBuilder(self._model.name, format="keras", files=opened.files)
        self._output_names = [_output_name(ref) for ref in self._model.outputs]
        self.has_mask: list[bool] = []
        version = 3 if _is_keras3(opened.description) else 2
        self.net = KerasNet(self._builder, reserved=self._output_names, version=version, training=training)

    def graph(self) -> Graph:
        """Read every layer and return the Graph."""
        self._check_layers(self._model)
        given = {ref: self._input(ref) for ref in self._model.inputs}
        outputs = self._read(self._model, given, (), ())
        self.has_mask = [output.value in self.net.masks for output in outputs]
        self._check_input_shapes()
        whole_model = ChannelsLastLayer(self.net, place=self._file)
        return self._builder.finish(whole_model.net_outputs(outputs, self._output_names))

    def _read(
        self,
        model: Model,
        made: dict[Ref, Tensor],
        path: tuple[Sequence[LayerConfig], ...],
        names: tuple[str, ...],
    ) -> list[Tensor]:
        """Read the calls of a model and return its outputs."""
        if len(names) > MAX_DEPTH:
            raise UnsupportedError(f"models are nested more than {MAX_DEPTH} deep", place=self._file)
        arrays: dict[str, Any] = {}
        for layer, number in calls_in_order(model, made, place=self._file):
            inside, way = (*path, model.layers), (*names, layer.name)
            if layer.name not in arrays and self._weights is not None and layer.type not in MODELS:
                arrays[layer.name] = self._weights.of(inside, way)
            call = layer.calls[number]
            args = [self._bound(value, made) for value in call.args]
            kwargs = {key: self._bound(value, made) for key, value in call.kwargs.items()}
            if layer.type in MODELS:
                outputs = self._inner(layer, args, kwargs, inside, way)
            else:
                outputs = self._call(layer, args, kwargs, "/".join(way), arrays.get(layer.name))
            made.update({(layer.name, number, index): tensor for index, tensor in enumerate(outputs)})
        return [_found(made, ref, self._file) for ref in model.outputs]

    def _bound(self, value: Any, made: Mapping[Ref, Tensor]) -> Any:
        """Return an argument with tensors and arrays in the place of references."""
        if isinstance(value, TensorRef):
            return _found(made, value.ref, self._file)
        if isinstance(value, Array):
            if value.values is not None:
                return Stored.constant(value.values)
            if value.name not in self._arrays:
                raise ReadError(f"the array {value.name!r:.80} is missing in it", place=self._file)
            return self._arrays[value.name]
        return [self._bound(item, made) for item in value] if isinstance(value, (list, tuple)) else value

    def _inner(
        self,
        layer: LayerConfig,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        path: tuple[Sequence[LayerConfig], ...],
        names: tuple[str, ...],
    ) -> list[Tensor]:
        """Read a model that is a layer."""
        inner = parse_model({"class_name": layer.type, "config": layer.settings}, place=self._file)
        self._check_layers(inner)
        given = tensors_of([*args, *kwargs.values()])
        if len(given) < len(inner.inputs):
            raise ReadError(
                f"the model {layer.name!r} has {len(inner.inputs)} inputs, but is called with {len(given)}",
                place=self._file,
            )
        return self._read(inner, dict(zip(inner.inputs, given, strict=False)), path, names)

    def _call(
        self, config: LayerConfig, args: Sequence[Any], kwargs: Mapping[str, Any], name: str, arrays: Any
    ) -> list[Tensor]:
        layers = self._builder.layers
        layer = layers.new(name, config.type, _plain(config.settings), origin=Origin(self._file))
        first = f"{name}@{layer.call}" if layer.call else name
        layer = replace(layer, outputs=(first, *(f"{name}:{number}" for number in range(1, 8))))
        ctx = KerasLayer(
            self.net, config, name=name, args=args, kwargs=kwargs, arrays=arrays, place=layer.place
        )
        with ctx.recorded(layer, ctx.inputs) as tensors, ctx.located_errors():
            tensors += read_layer(ctx)
        if config.type in KEEPS_MASK and tensors:
            ctx.masked(tensors[0], ctx.mask(ctx.x))
        return tensors

    def _input(self, ref: Ref) -> Tensor:
        """Add an input of the net."""
        layer = next((layer for layer in self._model.layers if layer.name == ref[0]), None)
        if layer is None:
            raise ReadError(f"the input {ref[0]!r} of the model is not one of its layers", place=self._file)
        settings = layer.settings
        shape = settings.get("batch_shape") or settings.get("batch_input_shape")
        given = self._input_shapes.get(layer.name)
        if not isinstance(shape, (list, tuple)):
            shape = given and [None, *given[1:]]
        if shape is None or not all(size is None or isinstance(size, int) for size in shape):
            raise unknown_sizes(layer.name, place=self._file)
        if given is not None:
            check_given_sizes(layer.name, shape, given, place=self._file)
        dims: list[int | str | None] = list(given or shape)
        if dims:
            dims[0] = BATCH
        kind = settings.get("dtype") or "float32"
        dtype = _dtype(kind if isinstance(kind, str) else "float32")
        value = self._builder.input(layer.name, dims, dtype=dtype, batch=False)
        self._builder.layers.add(
            Layer(
                layer.name,
                layer.name,
                layer.type,
                _plain(settings),
                outputs=(str(value.name),),
                origin=Origin(self._file),
            )
        )
        return Tensor(value)

    def _check_layers(self, model: Model) -> None:
        """Refuse a model with unknown layers, naming each class once with its layers."""
        known = {*MODELS, *READERS}
        refuse_unknown_layers(
            [UnknownLayer(layer.type, layer.name) for layer in model.layers if layer.type not in known],
            place=self._file,
            noun="layer",
            known=known,
            reasons=REASONS,
            how_to="add-a-keras-layer",
        )

    def _check_input_shapes(self) -> None:
        inputs = [ref[0] for ref in self._model.inputs]
        check_input_names(self._input_shapes, inputs, place=self._file)


def calls_in_order(model: Model, given: Iterable[Ref], *, place: str) -> list[tuple[LayerConfig, int]]:
    """Return the calls of layers that the outputs need, each after those that make its tensors.

    Raises:
        ReadError: A tensor is read that nothing makes, or one that follows from itself.
    """
    layers = {layer.name: layer for layer in model.layers}

    def sources(call: tuple[str, int]) -> list[tuple[str, int]]:
        name, number = call
        if name not in layers or not 0 <= number < len(layers[name].calls):
            raise ReadError(
                f"the model has no call {number} of the layer {name!r}, but reads its output", place=place
            )
        return [ref[:2] for ref in layers[name].calls[number].tensors()]

    known = {ref[:2] for ref in given}
    try:
        calls = inputs_first((ref[:2] for ref in model.outputs), sources, known=known)
    except CycleError as cycle:
        name = cycle.path[-1][0]
        raise ReadError(f"the layer {name!r} depends on its own output", place=place) from cycle
    return [(layers[name], number) for name, number in calls]


def _is_keras3(description: Any) -> bool:
    """Return whether Keras 3 wrote a configuration: it gives the sizes of inputs as ``batch_shape``."""
    held = description.get("config") if isinstance(description, Mapping) else None
    items = held.get("layers") if isinstance(held, Mapping) else None
    first = items[0] if isinstance(items, list) and items else {}
    settings = first.get("config") if isinstance(first, Mapping) else None
    return isinstance(settings, Mapping) and "batch_shape" in settings


def _output_name(ref: Ref) -> str:
    return ref[0] if not ref[2] else f"{ref[0]}:{ref[2]}"


def _found(made: Mapping[Ref, Tensor], ref: Ref, place: str) -> Tensor:
    if ref not in made:
        raise ReadError(
            f"the model reads {list(ref)}, which is not the output of any of its layers", place=place
        )
    return made[ref]


def _dtype(name: str) -> ir.DataType:
    try:
        return ir.DataType.from_numpy(np.dtype(name))
    except TypeError:
        return ir.DataType.FLOAT


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as written, without what only training asks for, and what says nothing of the layer."""
    left_out = ("_initializer", "_regularizer", "_constraint", "name", "dtype", "quantization_config")
    return {
        key: _plain_value(value)
        for key, value in settings.items()
        if not key.endswith(left_out) and (key, value) != ("trainable", True)
    }


def _plain_value(value: Any) -> Any:
    """Return a setting with a layer or function among settings as its class and what says something of it."""
    if not isinstance(value, Mapping) or not isinstance(value.get("config"), Mapping):
        return value
    return {"class_name": value.get("class_name"), **_plain(value["config"])}
