"""The inputs of a net: its placeholders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.errors import UnsupportedError
from netweave.files.unknown import check_input_names
from netweave.formats.lowering.channels_last import Stored, Tensor
from netweave.formats.lowering.inputs import check_given_sizes, unknown_sizes
from netweave.formats.tensorflow.attributes import DTYPES
from netweave.graph import BATCH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netweave.formats.tensorflow.nodes import Node
    from netweave.formats.tensorflow.operands import Item
    from netweave.graph import GraphBuilder

PLACEHOLDERS = frozenset({"Placeholder", "PlaceholderV2"})


class Inputs:
    """Makes an input of the net of each placeholder that is reached, once.

    An open first axis is the batch; a size that the source fixes stays, since its graph may count on it.

    Args:
        builder: Where inputs are added.
        names: What inputs are called, by the name of their node, where it is not that name.
        shapes: Sizes that the caller gave, by the input's name.
        file: The net's file, for messages.

    Attributes:
        notes: What a user should know about the reading.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        *,
        names: Mapping[str, str],
        shapes: Mapping[str, tuple[int, ...]],
        file: str,
    ) -> None:
        self.notes: list[str] = []
        self._builder = builder
        self._file = file
        self._names = names
        self._shapes = dict(shapes)
        self._made: dict[str, Item] = {}

    def name_of(self, node: Node) -> str:
        """Return what the input of a node is called."""
        return self._names.get(node.name, node.name)

    def feeds(self, node: Node) -> bool:
        """Return whether a node that is no placeholder is an input, since the net's signature says so."""
        return node.name in self._names and node.op not in PLACEHOLDERS

    def value(self, node: Node, place: str) -> Item:
        """Return the input of a node.

        Raises:
            ShapeError: Nobody says how many axes it has.
            UnsupportedError: It is of a type that no net computes with.
        """
        if node.name not in self._made:
            self._made[node.name] = self._make(node, place)
        return self._made[node.name]

    def check(self) -> None:
        """Raise ``UsageError`` if the caller gave sizes for an input that the net does not have."""
        known = [self._names.get(name, name) for name in self._made]
        check_input_names(self._shapes, known, place=self._file)

    def _make(self, node: Node, place: str) -> Item:
        name = self.name_of(node)
        kind = str(node.attributes.get("dtype", node.attributes.get("T", "DT_FLOAT")))
        shape = node.attributes.get("shape")
        if kind == "DT_BOOL" and not shape:
            self.notes.append(f"{name!r}, which says how the net is run, is taken as False")
            return Stored.constant(np.asarray(False))
        if kind not in DTYPES:
            raise UnsupportedError(
                f"is an input of type {kind}, which is not supported; freeze it from a later node on",
                place=place,
            )
        sizes = self._shapes.get(name, shape)
        if sizes is None:
            raise unknown_sizes(name, place=place)
        declared = list(shape) if shape is not None else [None, *sizes[1:]]
        check_given_sizes(name, declared, sizes, place=place)
        dims: list[int | str | None] = list(sizes)
        if dims and declared[0] is None:
            dims[0] = BATCH
        dtype = ir.DataType.from_numpy(DTYPES[kind])
        return Tensor(self._builder.input(name, dims, dtype=dtype, batch=False))
