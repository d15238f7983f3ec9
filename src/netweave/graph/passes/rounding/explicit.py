"""A graph in which every rounding is a pair of nodes, and the same graph without them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from netweave.graph import infer_shapes
from netweave.graph.passes.rewriting import Pass, Rewriter
from netweave.graph.passes.rounding.floats import stored_formats, widen
from netweave.graph.passes.rounding.formats import FLOATS, format_name
from netweave.graph.passes.rounding.integers import make_real
from netweave.graph.passes.rounding.layers import rounding_points

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.graph import Graph
    from netweave.graph.passes.rounding.formats import StoredRounding

TINY = 1e-30
"""The rms of an array of zeros, for what is divided by it."""


@dataclass(frozen=True, slots=True)
class ExplicitRounding:
    """A graph that computes in float32 and rounds in pairs of nodes.

    Attributes:
        graph: The graph.
        stored: How arrays were stored in fewer bits, by the initializer that holds their real numbers.
    """

    graph: Graph
    stored: dict[str, StoredRounding] = field(default_factory=dict)

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats that numbers are rounded to, by the names that users know them by."""
        return tuple(sorted({format_name(dtype) for dtype in self._dtypes()}))

    @property
    def has_integers(self) -> bool:
        """True if numbers are rounded to integers, which have scales, and not only to floats."""
        return any(dtype.is_integer() for dtype in self._dtypes())

    @property
    def stored_loss(self) -> float:
        """Rounding error of an array relative to its rms: the median over all arrays."""
        values = self.graph.model.graph.initializers
        losses = []
        for name, rounding in self.stored.items():
            tensor = values[name].const_value
            if tensor is not None and rounding.dtype.bitwidth <= 16:
                array = tensor.numpy()
                losses.append(_rms(rounding.bound(array)) / max(_rms(array), TINY))
        return float(np.median(losses)) if losses else 0.0

    def _dtypes(self) -> set[ir.DataType]:
        dtypes = {rounding.dtype for rounding in self.stored.values()}
        dtypes |= {point.dtype for point in rounding_points(self.graph)}
        return {dtype for dtype in dtypes if dtype.bitwidth <= 16}  # biases have more than enough bits


def _rms(array: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(array, dtype=np.float64)))) if array.size else 0.0


def has_rounding(graph: Graph) -> bool:
    """Return whether a graph holds numbers of fewer bits than float32, or quantised integers."""
    if any("Quantize" in node.op_type or node.op_type.startswith("QLinear") for node in graph.nodes):
        return True
    if any(parameter.stored_format is not None for parameter in graph.parameters.values()):
        return True
    return any(value.dtype in FLOATS for value in graph.values().values())


def explicit_rounding(graph: Graph) -> ExplicitRounding:
    """Return a copy of a graph in which every rounding to fewer bits is a pair of nodes of its own.

    Half precision becomes float32 with two Casts after each node; quantised layers become layers on real
    numbers with QuantizeLinear and DequantizeLinear after them; stored arrays become real numbers.

    Raises:
        NotExplicitError: Rounding and arithmetic of some layer cannot be told apart.
    """
    copy = graph.clone()
    stored = make_real(copy) | widen(copy) | stored_formats(copy)
    if stored or rounding_points(copy):
        infer_shapes(copy)
    return ExplicitRounding(copy, stored)


@Pass
def without_rounding(graph: Graph) -> None:
    """Remove the pairs of nodes that round."""
    rewriter = Rewriter(graph)
    for point in rounding_points(graph):
        source = point.value
        for back in point.backs:
            if not rewriter.bypass(back, source):
                copy = rewriter.insert(back, "Identity", [source])
                rewriter.take_over(back.outputs[0], copy.outputs[0])
                graph.model.graph.remove(back, safe=True)
        if not any(value.uses() or value.is_graph_output() for value in point.there.outputs):
            graph.model.graph.remove(point.there, safe=True)
