"""A small net lowered through a plain ``LayerContext``, and run by onnxruntime."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir
import onnxruntime

from netweave.formats.lowering import LayerContext
from netweave.graph import GraphBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np


class OneLayer(LayerContext):
    """A layer without a source; its inputs are those of the net."""

    def __init__(self, **inputs: np.ndarray) -> None:
        super().__init__(GraphBuilder("net", format="test", files=[]), place="a test")
        self.arrays = inputs
        self.inputs = {
            name: self.builder.input(name, array.shape, batch=False) for name, array in inputs.items()
        }

    @property
    def x(self) -> ir.Value:
        """The first input."""
        return next(iter(self.inputs.values()))

    def run(self, outputs: Sequence[ir.Value]) -> list[np.ndarray]:
        """Return the values of outputs, which become those of the net."""
        graph = self.builder.finish(outputs)
        proto = ir.serde.serialize_model(graph.model)
        session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        return list(session.run(None, self.arrays))
