"""What a layer's reader works with: its settings, its inputs, its arrays, and the writer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from netweave.errors import ReadError, ShapeError, UnsupportedError
from netweave.files.channels_last import Operand, Stored, Tensor, Writer

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir

    from netweave.formats.keras.config import LayerConfig
    from netweave.formats.keras.weights import LayerArrays

Padding = str | list[int]

MASKS = frozenset({"mask", "query_mask", "key_mask", "value_mask", "attention_mask"})
"""Arguments that say what counts and are no input."""


class Call:
    """One call of a layer while it is read.

    Args:
        layer: The layer.
        name: Its name, with those of the models around it.
        args: Arguments of the call; tensors in the place of references.
        kwargs: Arguments by name.
        arrays: Its arrays; None where no file gives them.
        writer: Where nodes are added.
        place: Where it stands, for messages.
        stored: Arrays of the layer that an earlier call has read, by key.
        keras: The version of Keras that wrote the file, 2 or 3.
        inside: Group of the layer's arrays inside that of a layer around it.
        masks: Which steps of a tensor count, by its value.
    """

    def __init__(
        self,
        layer: LayerConfig,
        *,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        arrays: LayerArrays | None,
        writer: Writer,
        place: str,
        stored: dict[str, Stored],
        keras: int,
        masks: dict[ir.Value, Tensor],
        inside: str = "",
    ) -> None:
        self.layer = layer
        self.name = name
        self.args = args
        self.kwargs = kwargs
        self.writer = writer
        self.place = place
        self.keras = keras
        self._arrays = arrays
        self._stored = stored
        self._inside = inside
        self._masks = masks

    def inner(self, layer: LayerConfig, args: Sequence[Any], *, inside: str) -> Call:
        """Return a call of a layer inside the layer.

        Args:
            layer: The layer inside.
            args: What it is given.
            inside: The group of its arrays.
        """
        return Call(
            layer,
            name=self.name,
            args=args,
            kwargs={},
            arrays=self._arrays,
            writer=self.writer,
            place=self.place,
            stored=self._stored,
            keras=self.keras,
            masks=self._masks,
            inside=inside,
        )

    @property
    def inputs(self) -> list[Tensor]:
        """All tensors that the layer is given, without the mask."""
        named = [value for name, value in self.kwargs.items() if name not in MASKS]
        return [*_tensors(self.args), *_tensors(named)]

    def mask(self, x: Tensor) -> Tensor | None:
        """Return which steps of a tensor count, (batch, time); None where all do."""
        given = self.kwargs.get("mask")
        return given if isinstance(given, Tensor) and x is self.x else self._masks.get(x.value)

    def masked(self, made: Tensor, mask: Tensor | None) -> Tensor:
        """Return a tensor of which only some steps count, to the layers that ask."""
        if mask is not None:
            self._masks[made.value] = mask
        return made

    @property
    def x(self) -> Tensor:
        """The first tensor that the layer is given.

        Raises:
            ReadError: It is given none.
        """
        found = self.inputs
        if not found:
            raise ReadError("is called without a tensor", place=self.place)
        return found[0]

    def setting(self, name: str, default: Any = None) -> Any:
        """Return a setting as written."""
        return self.layer.settings.get(name, default)

    def real(self, name: str, default: float) -> float:
        """Return a setting that is a number."""
        value = self._of(name, default, (int, float), "a number")
        return float(value)

    def whole(self, name: str, default: int | None = None) -> int:
        """Return a setting that is a whole number; one without a default must be there."""
        return int(self._of(name, default, (int,), "a whole number"))

    def count(self, name: str) -> int:
        """Return a setting that is a whole number above 0."""
        value = self.whole(name)
        if value < 1:
            raise ReadError(f"{name}={value}, expected at least 1", place=self.place)
        return value

    def flag(self, name: str, default: bool) -> bool:
        """Return a setting that is True or False."""
        value = self.setting(name, default)
        if value is None:
            return default
        if not isinstance(value, (bool, int)):
            raise ReadError(f"{name}={value!r:.40}, expected True or False", place=self.place)
        return bool(value)

    def word(self, name: str, default: str, choices: Sequence[str] = ()) -> str:
        """Return a setting that is a word, one of those given if there are any."""
        value = self.setting(name)
        value = default if value is None else value
        if not isinstance(value, str) or (choices and value not in choices):
            wanted = f"one of {', '.join(choices)}" if choices else "a word"
            raise ReadError(f"{name}={value!r:.40}, expected {wanted}", place=self.place)
        return value

    def per_axis(self, name: str, rank: int, default: int | Sequence[int] = 1) -> list[int]:
        """Return a setting with a number for each axis; one number stands for all."""
        value = self.setting(name)
        value = default if value is None else value
        numbers = [value] * rank if isinstance(value, int) else value
        if (
            not isinstance(numbers, Sequence)
            or len(numbers) != rank
            or not all(isinstance(number, int) for number in numbers)
        ):
            raise ReadError(f"{name}={value!r:.40}, expected {rank} whole numbers", place=self.place)
        return [int(number) for number in numbers]

    def _of(self, name: str, default: Any, kinds: tuple[type, ...], what: str) -> Any:
        value = self.setting(name)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise ReadError(f"{name}={value!r:.40}, expected {what}", place=self.place)
        return value

    def is_last(self) -> bool:
        """Whether the layer has the channels on the last axis."""
        return self.word("data_format", "channels_last") != "channels_first"

    def padding(self) -> str:
        """Return ``SAME``, ``VALID`` or ``CAUSAL``."""
        return self.word("padding", "valid").upper()

    def shape(self, x: Operand) -> tuple[int | None, ...]:
        """Return the sizes of an operand in the source's order, None for an open one."""
        return self.writer.shape(x)

    def channels(self, *, last: bool = True) -> int:
        """Return how many channels the input has."""
        (size,) = self.writer.known(self.x, [-1 if last else 1])
        return size

    def stored(self, name: str, shape: Sequence[int], *, role: str = "weight", inside: str = "") -> Stored:
        """Return the next stored array of the layer; arrays are asked for in Keras's order.

        Args:
            name: Keras's name for it.
            shape: Its sizes.
            role: See ``Parameter``.
            inside: Layers inside the layer that own it.
        """
        inside = "/".join(part for part in (self._inside, inside) if part)
        key = "/".join(part for part in (self.name, inside.replace("cell", "").strip("/"), name) if part)
        if key not in self._stored:
            array: np.ndarray | None = None
            if self._arrays is not None:
                array = self._arrays.take(name, shape, inside=inside)
            self._stored[key] = Stored.parameter(key, array, tuple(shape), role)
        return self._stored[key]

    def wrong(self, message: str) -> ShapeError:
        """Return the error for sizes that do not fit."""
        return ShapeError(message, place=self.place)

    def refuse(self, message: str) -> UnsupportedError:
        """Return the error for something that Netweave does not read."""
        return UnsupportedError(message, place=self.place)


def _tensors(values: Sequence[Any]) -> list[Tensor]:
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += _tensors(value)
    return found
