"""The table of bodies, and what one is written from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.files.node_writer import GraphNode, WriterTable
from netweave.graph import DOMAIN, find_operator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import onnx_ir as ir

    from netweave.formats.onnx.functions.tape import Tensor
    from netweave.graph import Graph

    Body = Callable[["FunctionNode"], Sequence[Tensor]]

LOWEST = float(np.finfo(np.float32).min)
"""Stands for minus infinity, as in the sources."""


class FunctionNode(GraphNode):
    """One node while a body is written for it.

    Attributes:
        inputs: Its inputs in the body, those left out not counted.
        settings: Its attributes, and the defaults of those that are left out.
    """

    def __init__(self, node: ir.Node, graph: Graph, inputs: Sequence[Tensor]) -> None:
        super().__init__(node, graph)
        self.inputs = inputs
        self.settings: dict[str, Any] = {**find_operator(node.op_type).defaults, **self.attributes}


TABLE: WriterTable[FunctionNode, Sequence[Tensor]] = WriterTable()
"""The operators that have a body; a function writes it and returns the outputs."""


REASONS: dict[str, str] = {}
"""Why other operators have no body, whatever their settings."""


def body(*names: str) -> Callable[[Body], Body]:
    """Register the decorated function for operators; it raises ``NotWritable`` where ONNX has no form."""
    return TABLE.writes(*names, domain=DOMAIN)


def without(*names: str, reason: str) -> None:
    """Register operators that have no body, with the reason."""
    REASONS.update(dict.fromkeys(names, reason))
