"""Context of Keras's layers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.formats.keras.config import LayerConfig
from netweave.formats.lowering import RuleTable
from netweave.formats.lowering.channels_last import ChannelsLastLayer, ChannelsLastNet, Stored, Tensor
from netweave.graph import GraphBuilder

if TYPE_CHECKING:
    from netweave.formats.keras.weights import LayerArrays


Read = Callable[["KerasLayer"], "Tensor | Sequence[Tensor]"]


@dataclass(frozen=True, slots=True)
class LayerReader:
    """Reader of a class of layers.

    Attributes:
        read: Adds its nodes and returns its outputs.
        only_in_training: Whether it does nothing in a net that predicts, whatever its settings.
    """

    read: Read
    only_in_training: bool = False


READERS: RuleTable[Read, LayerReader] = RuleTable(LayerReader)
"""The readers by the names that a class of layers had in every age of Keras."""

layer_reader = READERS.register


def read_layer(ctx: KerasLayer) -> list[Tensor]:
    """Return the outputs of a layer; there must be a reader of its class."""
    reader = READERS[ctx.type]
    outputs = reader.read(ctx)
    if not reader.only_in_training:
        ctx.check_settings()
    return list(outputs) if isinstance(outputs, Sequence) else [outputs]


TRAINING = frozenset(
    {
        "dropout", "fused", "l1", "l2", "noise_shape", "rate", "recurrent_dropout", "renorm_clipping",
        "renorm_momentum", "rng_type", "seed", "stddev", "synchronized", "trainable", "unit_forget_bias",
        "virtual_batch_size",
    }
)  # fmt: skip
"""Settings that count in training alone."""

BOOKKEEPING = frozenset(
    {
        "batch_input_shape", "batch_shape", "dtype", "fill_mode", "fill_value", "implementation",
        "input_length", "key_shape", "name", "query_shape", "sparse", "stateful", "unroll", "value_shape",
    }
)  # fmt: skip
"""Settings that say how a layer is computed, or what is known from elsewhere.

``fill_mode`` and ``fill_value`` count where an image keeps its aspect ratio, which is refused; a ``stateful``
layer begins like any other.
"""

ENDINGS = ("_constraint", "_initializer", "_regularizer")


def is_without_effect(name: str, value: Any) -> bool:
    """Return whether a setting changes nothing: it is off, or is none of a net that predicts."""
    if value is None or value is False or (name, value) == ("groups", 1):
        return True
    return name in TRAINING | BOOKKEEPING or name.endswith(ENDINGS)


Padding = str | list[int]

MASKS = frozenset({"mask", "query_mask", "key_mask", "value_mask", "attention_mask"})
"""Arguments that say what counts and are no input."""


DROPOUTS = frozenset({"dropout", "recurrent_dropout"})
"""Settings of layers that drop something inside while they are trained."""


class KerasNet(ChannelsLastNet):
    """The state shared by the layers of a model.

    Args:
        builder: Where nodes are added.
        reserved: Names that only the model's outputs may have.
        version: The version of Keras that wrote the file, 2 or 3.
        training: Whether layers do what they do while a net is trained.

    Attributes:
        arrays: Arrays that an earlier call of their layer has read, by key.
        values: Values of arrays that a program gives, by key.
        logits: What a softmax or a sigmoid has read, with its name, by the value that it made.
        masks: Which steps of a tensor count, by its value.
    """

    def __init__(
        self, builder: GraphBuilder, *, reserved: Sequence[str], version: int, training: bool = False
    ) -> None:
        super().__init__(builder, reserved=reserved)
        self.version = version
        self.training = training
        self.values: dict[str, np.ndarray] = {}
        self.logits: dict[ir.Value, tuple[str, Tensor]] = {}
        self.arrays: dict[str, Stored] = {}
        self.masks: dict[ir.Value, Tensor] = {}


class KerasLayer(ChannelsLastLayer):
    """One call of a layer of a Keras model, while it is lowered.

    Args:
        net: What the layers of the model share.
        config: The layer.
        name: Its name, with those of the models around it.
        args: Arguments of the call; tensors in the place of references.
        kwargs: Arguments by name.
        arrays: Its arrays; None where no file gives them.
        place: Where it stands, for messages.
        inside: Group of the layer's arrays inside that of a layer around it.
    """

    def __init__(
        self,
        net: KerasNet,
        config: LayerConfig,
        *,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        arrays: LayerArrays | None,
        place: str,
        inside: str = "",
    ) -> None:
        super().__init__(net, config.settings, place=place)
        self.config = config
        self.type = config.type
        self.name = name
        self.stored_args = [*args, *kwargs.values()]
        self.args = [self._given(value) for value in args]
        self.kwargs = {key: self._given(value) for key, value in kwargs.items()}
        self.version = net.version
        self.training = net.training
        self._masks = net.masks
        self._known_arrays = net.arrays
        self._arrays = arrays
        self._inside = inside

    def _given(self, value: Any) -> Any:
        """Return an argument with stored arrays as tensors."""
        if isinstance(value, list):
            return [self._given(item) for item in value]
        return self.tensor(value) if isinstance(value, Stored) else value

    def inner(self, config: LayerConfig, args: Sequence[Any], *, inside: str) -> KerasLayer:
        """Return the context of a layer inside the layer.

        Args:
            config: The layer inside.
            args: What it is given.
            inside: The group of its arrays.
        """
        assert isinstance(self.net, KerasNet)
        inner = KerasLayer(
            self.net,
            config,
            name=self.name,
            args=args,
            kwargs={},
            arrays=self._arrays,
            place=self.place,
            inside=inside,
        )
        inner._key = self._key
        return inner

    # What the layer is given.

    @property
    def inputs(self) -> list[Tensor]:
        """All tensors that the layer is given, without the mask."""
        named = [value for name, value in self.kwargs.items() if name not in MASKS]
        return tensors_of([*self.args, *named])

    @property
    def x(self) -> Tensor:
        """The first tensor that the layer is given.

        Raises:
            ReadError: It is given none.
        """
        if not self.inputs:
            raise self.read_error("is called without a tensor, expected at least one")
        return self.inputs[0]

    def mask(self, x: Tensor) -> Tensor | None:
        """Return which steps of a tensor count, (batch, time); None where all do."""
        given = self.kwargs.get("mask")
        return given if isinstance(given, Tensor) and x is self.x else self._masks.get(x.value)

    def copied(self, x: Tensor) -> Tensor:
        """Return a tensor that the layer makes itself, where it would pass its input on."""
        return self.unary("Identity", x) if x is self.x else x

    def masked(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return a tensor of which only some steps count, to the layers that ask.

        Keras' layers pass masks on, its operations do not, though a rule may serve both (``Multiply``).
        """
        if mask is not None and not self.config.is_operation:
            self._masks[x.value] = mask
        return x

    def note_logits(self, activation: str, x: Tensor, out: Tensor) -> Tensor:
        """Remember what an activation has read: a cross entropy is exact if it is computed from that."""
        assert isinstance(self.net, KerasNet)
        self.net.logits[out.value] = (activation, x)
        return out

    def logits(self, activation: str, x: Tensor) -> Tensor | None:
        """Return what the activation that made a tensor has read; None if another one made it."""
        assert isinstance(self.net, KerasNet)
        made_by, before = self.net.logits.get(x.value, ("", x))
        return before if made_by == activation else None

    def known_array(self, key: str) -> Stored:
        """Return an array that a layer before has read, by its key."""
        return self._known_arrays[key]

    # Its settings.

    def first_setting(self, *names: str) -> str:
        """Return the name by which the file has a setting that Keras renamed; the last where it has none."""
        return next((name for name in names if name in self.config.settings), names[-1])

    def check_settings(self) -> None:
        """Refuse settings that the layer was not asked for, unless they change nothing here.

        Raises:
            UnsupportedError: There is such a setting.
        """
        for name, value in self.config.settings.items():
            if self.training and name in DROPOUTS and value and name not in self._asked_for:
                raise self.unsupported(f"training with {name}={value!r:.40} is not supported; set it to 0")
            if name not in self._asked_for and not is_without_effect(name, value):
                raise self.unsupported(f"the setting {name}={value!r:.40} is not supported")

    def positive(self, name: str) -> int:
        """Return a setting that is an integer above 0."""
        value = self.integer(name)
        if value < 1:
            raise self.setting_error(name, "at least 1")
        return value

    def boolean(self, name: str, default: bool) -> bool:
        """Return a setting that is True or False."""
        value = self.setting(name, default)
        if not isinstance(value, (bool, int)):
            raise self.setting_error(name, "True or False")
        return bool(value)

    def string(self, name: str, default: str, choices: Sequence[str] = ()) -> str:
        """Return a setting that is a string, one of those given if there are any."""
        value = self.setting(name, default)
        if not isinstance(value, str) or (choices and value not in choices):
            raise self.setting_error(name, f"one of {', '.join(choices)}" if choices else "a string")
        return value

    def per_axis(self, name: str, rank: int, default: int | Sequence[int] = 1) -> list[int]:
        """Return a setting with a number for each axis; one number stands for all."""
        numbers = self.integer_list(name, default)
        if isinstance(self.setting(name, default), int):
            return numbers * rank
        if len(numbers) != rank:
            raise self.setting_error(name, f"{rank} integers")
        return numbers

    def axes(self, name: str = "axis", default: int | list[int] | None = None) -> list[int]:
        """Return a setting with axes of the input, counted from the front; by default all of them."""
        rank = self.rank()
        axes = self.integer_list(name, list(range(rank)) if default is None else default)
        return [self.axis(axis, rank) for axis in axes]

    def one_axis(self, default: int | None = None) -> int:
        """Return the setting ``axis``, of which only one is read."""
        axes = self.integer_list("axis", default)
        if len(axes) != 1:
            raise self.unsupported(f"axis={axes!r:.40}: only one axis is supported")
        return axes[0]

    def layer_setting(self, name: str) -> LayerConfig:
        """Return a setting that is a layer."""
        return self.layer_of(name, self.setting(name))

    def layer_of(self, name: str, value: Any) -> LayerConfig:
        """Return a layer that stands among the settings, as it is written there."""
        config = value.get("config") if isinstance(value, Mapping) else None
        if not isinstance(config, Mapping):
            raise self.read_error(f"its {name!r} is not a layer")
        return LayerConfig(str(config.get("name", "")), str(value.get("class_name")), config)

    @property
    def spatial_rank(self) -> int:
        """Number of spatial axes, from the name of the class: 2 for ``Conv2DTranspose``."""
        digits = re.search(r"(\d)D(Transpose)?$", self.type)
        assert digits, self.type
        return int(digits[1])

    def channels(self, *, last: bool = True) -> int:
        """Return how many channels the input has."""
        return self.size(-1 if last else 1)

    def is_last(self) -> bool:
        """Return whether the layer has the channels on the last axis."""
        return self.string("data_format", "channels_last") != "channels_first"

    def padding(self) -> str:
        """Return ``SAME``, ``VALID`` or ``CAUSAL``."""
        return self.string("padding", "valid", ("same", "valid", "causal")).upper()

    # Its arrays.

    def parameter(self, name: str, shape: Sequence[int], *, role: str = "weight", inside: str = "") -> Stored:
        """Return the next stored array of the layer; arrays are asked for in Keras's order.

        Args:
            name: Keras's name for it.
            shape: Its sizes.
            role: See ``Parameter``.
            inside: Layers inside the layer that own it.
        """
        inside = "/".join(filter(None, (self._inside, inside)))
        key = "/".join(filter(None, (self.name, inside.replace("cell", "").strip("/"), name)))
        if key not in self._known_arrays:
            assert isinstance(self.net, KerasNet)
            array = self.net.values.get(key)
            if self._arrays is not None:
                array = self._arrays.take(name, shape, inside=inside)
            self._known_arrays[key] = Stored.parameter(key, array, tuple(shape), role)
        return self._known_arrays[key]

    def optional_parameter(
        self, flag: str, name: str, shape: Sequence[int], *, role: str, inside: str = ""
    ) -> Stored | None:
        """Return a stored array that the layer has only if a setting, True by default, says so."""
        if not self.boolean(flag, True):
            return None
        return self.parameter(name, shape, role=role, inside=inside)


def tensors_of(values: Sequence[Any]) -> list[Tensor]:
    """Return the tensors among values, and in the lists among them."""
    tensors: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            tensors.append(value)
        elif isinstance(value, (list, tuple)):
            tensors += tensors_of(value)
    return tensors
