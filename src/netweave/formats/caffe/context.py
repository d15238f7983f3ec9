"""One layer of a Caffe net while it is lowered, and the table of the rules by type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.formats.lowering import LayerContext, RuleTable
from netweave.graph import BATCH, Layer
from netweave.graph.parameters import Step

if TYPE_CHECKING:
    from netweave.files.protobuf import Message
    from netweave.formats.caffe.parameters import Blobs


@dataclass(eq=False, kw_only=True)
class CaffeLayer(LayerContext):
    """One layer in place.

    Attributes:
        spec: Its LayerParameter.
        bottoms: The values that it reads.
        tops: Names for the values that it makes.
        blobs: The stored arrays of the net.
        phase: ``TRAIN`` or ``TEST``.
        batch: The batch size that the file declares.
    """

    layer: Layer
    spec: Message
    bottoms: Sequence[ir.Value]
    tops: Sequence[str]
    blobs: Blobs
    phase: str
    batch: int | None

    @property
    def x(self) -> ir.Value:
        """The first bottom."""
        return self.bottoms[0]

    def has_batch(self) -> bool:
        """Return whether axis 0 of the first bottom is the net's open batch size."""
        shape = self.x.shape
        return shape is not None and len(shape) > 0 and str(shape[0]) == BATCH

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
        key = self.blobs.entry(self, index, tuple(shape), role, None, trainable=False).key
        return key, self.blobs.array(key)

    def add(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        domain: str = "",
        name: str = "",
        top: int | None = None,
    ) -> ir.Value:
        """Add a node with one output, which is a top of the layer if ``top`` is its number."""
        if top is not None and top < len(self.tops):
            name = self.tops[top]
        return super().add(op_type, inputs, attributes, domain=domain, name=name)

    def as_top(self, value: ir.Value, top: int = 0) -> ir.Value:
        """Return a value that a shared rule made, under the name of a top."""
        self.builder.rename(value, self.tops[top])
        return value


Read = Callable[[CaffeLayer], Sequence[ir.Value]]
"""Writes a layer's nodes and returns the values of its tops, in order."""


@dataclass(frozen=True, slots=True)
class LayerReader:
    """Reader of a type of layer; its numbers of bottoms and tops are fixed numbers or (least, most)."""

    read: Read
    bottoms: int | tuple[int, int] = 1
    tops: int | tuple[int, int] = 1


LAYERS: RuleTable[Read, LayerReader] = RuleTable(LayerReader)
"""The readers by Caffe's name of the type; ``netweave.formats.caffe.layers`` fills it."""

layer = LAYERS.register
