"""Shared by all readers and writers: how layers are translated to ONNX operators.

A reader lowers each layer of its source through one ``LayerContext`` and takes stored arrays from one
``ParameterStore``; it subclasses both with what is its own: how a setting is spelled, where an array lies.
A rule that several frameworks have in common stands here once: how a window moves, how packed recurrent
weights are ordered, what an activation is called.
"""

from netweave.formats.lowering.context import MANY, LayerContext, RuleTable, import_families
from netweave.formats.lowering.parameters import Layout, ParameterStore

__all__ = ["MANY", "LayerContext", "Layout", "ParameterStore", "RuleTable", "import_families"]
