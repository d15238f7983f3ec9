"""What a layer's function is given: one layer of the net, ready to be written as nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from netweave.errors import ReadError, ShapeError, SourceError, UnsupportedError
from netweave.graph import BATCH, known_shape

if TYPE_CHECKING:
    import numpy as np

    from netweave.files.protobuf import Message
    from netweave.formats.caffe.blobs import Blobs
    from netweave.graph import GraphBuilder, Layer
    from netweave.graph.parameters import Step

Shape = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """One layer in place.

    Attributes:
        spec: Its LayerParameter.
        layer: Its entry in the table of layers.
        builder: Where its nodes go.
        bottoms: The values that it reads.
        tops: Names for the values that it makes.
        blobs: The stored arrays of the net.
        phase: ``TRAIN`` or ``TEST``.
        batch: The batch size that the file declares.
    """

    spec: Message
    layer: Layer
    builder: GraphBuilder
    bottoms: Sequence[ir.Value]
    tops: Sequence[str]
    blobs: Blobs
    phase: str
    batch: int | None

    @property
    def place(self) -> str:
        """Where the layer stands, for errors."""
        return self.layer.place

    def shape(self, index: int = 0) -> Shape:
        """Return the sizes of a bottom; a symbolic one, such as the batch, is None."""
        shape = known_shape(self.bottoms[index])
        if shape is None:
            raise ShapeError(
                f"the sizes of bottom {self.bottoms[index].name!r} are not known", place=self.place
            )
        return shape

    def has_batch(self, index: int = 0) -> bool:
        """Whether axis 0 of a bottom is the net's open batch size."""
        shape = self.bottoms[index].shape
        return shape is not None and len(shape) > 0 and str(shape[0]) == BATCH

    def size(self, axis: int, index: int = 0) -> int:
        """Return one size of a bottom that must be known."""
        size = self.shape(index)[axis]
        if size is None:
            raise self.wrong_shape(
                f"bottom {self.bottoms[index].name!r} has an open size on axis {axis}, a fixed one is needed"
            )
        return size

    def axis(self, axis: int, *, rank: int | None = None, index: int = 0) -> int:
        """Return an axis of a bottom counted from the front; Caffe counts negative ones from the end."""
        rank = len(self.shape(index)) if rank is None else rank
        if not -rank <= axis < rank:
            raise self.wrong_shape(f"axis {axis} is out of range for a bottom with {rank} axes")
        return axis % rank

    def blob(
        self,
        index: int,
        shape: Sequence[int],
        role: str,
        filler: Message | None = None,
        *,
        layout: Sequence[Step] = (),
    ) -> ir.Value:
        """Return the initializer made from a stored array of the layer.

        Args:
            index: Its number among the layer's blobs.
            shape: Its sizes in Caffe.
            role: As in ``graph.Parameter``.
            filler: How it is drawn before training.
            layout: Steps from the stored array to the initializer.
        """
        return self.blobs.value(self, index, tuple(shape), role, filler, tuple(layout))

    def statistic(self, index: int, shape: Sequence[int], role: str) -> tuple[str, np.ndarray | None]:
        """Return key and values of a stored array that no gradient changes; None without weights."""
        parameter, array = self.blobs.entry(self, index, tuple(shape), role, None, trainable=False)
        return parameter.key, array

    def add(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: dict[str, Any] | None = None,
        *,
        domain: str = "",
        top: int | None = None,
    ) -> ir.Value:
        """Add a node with one output, which is a top of the layer if ``top`` is its number."""
        name = self.tops[top] if top is not None and top < len(self.tops) else ""
        return self.builder.add(op_type, inputs, attributes, domain=domain, outputs=name)

    def constant(self, values: Any, *, dtype: Any = "float32") -> ir.Value:
        """Add a constant."""
        return self.builder.constant(values, dtype=dtype)

    def wrong(self, message: str, line: int | None = None) -> SourceError:
        """Return the error for a wrong setting, to be raised."""
        return self._error(ReadError, message, line)

    def wrong_shape(self, message: str) -> SourceError:
        """Return the error for sizes that do not fit, to be raised."""
        return self._error(ShapeError, message, None)

    def unsupported(self, message: str, line: int | None = None) -> SourceError:
        """Return the error for what Netweave does not read, to be raised."""
        return self._error(UnsupportedError, message, line)

    def _error(self, kind: type[SourceError], message: str, line: int | None) -> SourceError:
        place = self.place
        if line is not None and self.layer.origin is not None:
            place = f"{self.layer.origin.file}:{line}: layer {self.layer.name!r} ({self.layer.type})"
        return kind(message, place=place)


Rule = Callable[[Call], Sequence[ir.Value]]
"""Writes a layer's nodes and returns the values of its tops, in order."""


@dataclass(frozen=True, slots=True)
class LayerRule:
    """How a type of layer is read, and how many bottoms and tops it may have (least, most)."""

    rule: Rule
    bottoms: tuple[int, int]
    tops: tuple[int, int]


MANY = 1 << 30

LAYERS: dict[str, LayerRule] = {}
"""The rules by Caffe's name of the type; ``netweave.formats.caffe.layers`` fills it."""


def layer(
    type: str,  # noqa: A002
    *,
    bottoms: int | tuple[int, int] = 1,
    tops: int | tuple[int, int] = 1,
) -> Callable[[Rule], Rule]:
    """Register the decorated function as the rule for a type of layer.

    Args:
        type: Caffe's name of the type.
        bottoms: How many bottoms it has: a number, or (least, most).
        tops: How many tops it has, in the same way.
    """

    def register(rule: Rule) -> Rule:
        LAYERS[type] = LayerRule(rule, _range(bottoms), _range(tops))
        return rule

    return register


def _range(count: int | tuple[int, int]) -> tuple[int, int]:
    return (count, count) if isinstance(count, int) else count
