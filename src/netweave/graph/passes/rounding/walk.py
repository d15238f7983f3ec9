"""Facts about a graph of integers while its layers become layers on real numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph import parameter_key
from netweave.graph.parameters import tag_parameter
from netweave.graph.passes.rounding.formats import Quantiser, StoredRounding

if TYPE_CHECKING:
    from netweave.graph.passes.rewrite import Rewriter

FLOAT = ir.DataType.FLOAT


class NotExplicitError(Exception):
    """A layer whose rounding cannot be taken apart from what it computes; the message says which and why."""


@dataclass(slots=True)
class Integers:
    """A graph on its way from integers to real numbers.

    Attributes:
        rewriter: Changes the graph.
        stored: How arrays were stored, by the name of the real one.
        real: The real numbers that an integer value stands for, by its name.
        quantisers: What was rounded to, by the name of the integer value.
    """

    rewriter: Rewriter
    stored: dict[str, StoredRounding] = field(default_factory=dict)
    real: dict[str, ir.Value] = field(default_factory=dict)
    quantisers: dict[str, Quantiser] = field(default_factory=dict)

    def stored_array(self, value: ir.Value, quantiser: Quantiser, name: str) -> ir.Value:
        """Return the real numbers of a stored array of integers as an initializer."""
        integers = array_of(value)
        if integers is None:
            raise NotExplicitError(f"{value.name!r} is not a stored array")
        return self._stored(value, quantiser, integers, name)

    def rounded_array(self, value: ir.Value, quantiser: Quantiser) -> ir.Value:
        """Return what is left of a stored array of real numbers that a node quantises, as an initializer."""
        array = array_of(value)
        assert array is not None
        return self._stored(value, quantiser, quantiser.quantised(array), f"{value.name}/rounded")

    def _stored(self, value: ir.Value, quantiser: Quantiser, integers: np.ndarray, name: str) -> ir.Value:
        real = ir.Tensor(quantiser.dequantised(integers).astype(np.float32))
        made = self.rewriter.initializer(real, name)
        key = parameter_key(value)
        if key is not None:
            tag_parameter(made, key)
        self.stored[str(made.name)] = StoredRounding(quantiser.dtype, quantiser, integers)
        return made

    def read(self, node: ir.Node, value: ir.Value | None, quantiser: Quantiser) -> ir.Value:
        """Return the real numbers of what a node reads as integers."""
        if value is None:
            raise NotExplicitError(f"{node.op_type} {node.name!r} lacks an input")
        name = str(value.name)
        if value.is_graph_input() and name not in self.real:
            self._open_input(value, quantiser)
        if name in self.real:
            self._read_by(self.real[name], quantiser)
            return self.real[name]
        if array_of(value) is not None:
            return self.stored_array(value, quantiser, f"{name}/real")
        raise NotExplicitError(f"{node.op_type} {node.name!r} reads {name!r}, which no layer here quantised")

    def round(self, node: ir.Node, real: ir.Value, quantiser: Quantiser, integer: ir.Value) -> None:
        """Round real numbers before ``node``; they stand for an integer value from then on."""
        self.real[str(integer.name)] = self.rounded(node, real, quantiser)
        self.quantisers[str(integer.name)] = quantiser

    def rounded(self, node: ir.Node, real: ir.Value, quantiser: Quantiser) -> ir.Value:
        """Return real numbers after a pair of rounding nodes, which are put before ``node``."""
        scale = self.rewriter.initializer(ir.Tensor(quantiser.scale), f"{real.name}/scale")
        zeros = np.asarray(quantiser.zero_point).astype(quantiser.dtype.numpy())
        zero = self.rewriter.initializer(ir.Tensor(zeros), f"{real.name}/zero_point")
        settings = {"axis": quantiser.axis, "block_size": quantiser.block_size}
        if quantiser.is_per_tensor:
            settings = {}
        there = self.rewriter.insert(node, "QuantizeLinear", [real, scale, zero], settings)
        pair = [there.outputs[0], scale, zero]
        back = self.rewriter.insert(node, "DequantizeLinear", pair, settings, output=f"{real.name}/rounded")
        there.outputs[0].type, back.outputs[0].type = ir.TensorType(quantiser.dtype), ir.TensorType(FLOAT)
        there.outputs[0].shape = back.outputs[0].shape = real.shape
        return back.outputs[0]

    def _read_by(self, real: ir.Value, quantiser: Quantiser) -> None:
        """Let integers be read by the scale of their reader, which may be another than their maker's."""
        back = real.producer()
        if back is None or back.op_type != "DequantizeLinear":
            return
        scale, zero = (array_of(value) for value in back.inputs[1:3])
        if scale is None or zero is None or scale.shape != quantiser.scale.shape:
            return
        if np.array_equal(scale, quantiser.scale) and np.array_equal(zero, quantiser.zero_point):
            return
        for index, array in ((1, quantiser.scale), (2, quantiser.zero_point.astype(zero.dtype))):
            value = self.rewriter.initializer(ir.Tensor(array), f"{real.name}/read")
            back.replace_input_with(index, value)

    def _open_input(self, value: ir.Value, quantiser: Quantiser) -> None:
        """Let an input of integers be one of real numbers."""
        readers = {node for node, _ in value.uses()}
        first = next(node for node in self.rewriter.graph.nodes if node in readers)
        value.type = ir.TensorType(FLOAT)
        self.round(first, value, quantiser, value)


def array_of(value: ir.Value | None) -> np.ndarray | None:
    """Return a stored array; None for a value that is computed."""
    return None if value is None or value.const_value is None else value.const_value.numpy()


def rank_of(value: ir.Value | None) -> int:
    """Return the number of axes of a value; 0 if it is not known."""
    array = array_of(value)
    if array is not None:
        return array.ndim
    return len(value.shape) if value is not None and value.shape is not None else 0


def input_at(node: ir.Node, at: int) -> ir.Value | None:
    """Return an input of a node; None for one that is left out."""
    return node.inputs[at] if at < len(node.inputs) else None


def quantiser_of(
    node: ir.Node, scale: ir.Value | None, zero: ir.Value | None, *, dtype: ir.DataType, axis: int, rank: int
) -> Quantiser:
    """Return what a node quantises by.

    Raises:
        NotExplicitError: The scale or the zero point is computed.
    """
    scales, zeros = array_of(scale), array_of(zero)
    if scales is None or (zero is not None and zeros is None):
        raise NotExplicitError(f"{node.op_type} {node.name!r} computes its scale or zero point")
    if zeros is None:
        zeros = np.zeros(np.shape(scales), np.int64)
    blocks = node.attributes.get("block_size")
    block_size = blocks.as_int() if blocks is not None else 0
    return Quantiser(
        dtype,
        np.asarray(scales, np.float32),
        np.asarray(zeros).astype(np.int64),
        axis % rank if rank else 0,
        block_size,
    )
