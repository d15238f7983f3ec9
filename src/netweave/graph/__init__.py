"""The type Graph: nodes, layers, stored arrays, operators that ONNX lacks, shapes, costs and passes."""

from netweave.graph import ops
from netweave.graph.attributes import attributes_of, default_attributes, make_attributes
from netweave.graph.builder import GraphBuilder
from netweave.graph.checks import known_shape
from netweave.graph.costs import Cost, layer_costs, node_cost, node_costs, total_cost
from netweave.graph.graph import CachedSteps, Graph, Trace
from netweave.graph.layers import Layer, LayerTable, Origin, layer_keys, set_layer_keys
from netweave.graph.operators import (
    Effect,
    Operator,
    all_operators,
    effects_of,
    find_operator,
    is_registered,
    operator,
    register_operator,
)
from netweave.graph.opset import BATCH, DOMAIN, OPSET
from netweave.graph.parameters import (
    Parameter,
    Statistics,
    gradient_factors,
    parameter_key,
    parameter_layout,
    scale_gradients,
    set_statistics,
    set_ties,
    statistics_of,
    ties_of,
)
from netweave.graph.shapes import infer_shapes
from netweave.graph.stored import (
    StoredFormat,
    as_loaded,
    complete_arrays,
    drawn_arrays,
    graph_of_weights,
    stored_arrays,
    unread_arrays,
    with_arrays,
)
from netweave.graph.summary import (
    LayerSummary,
    NodeSummary,
    ValueSummary,
    graph_to_json,
    layer_summaries,
    node_summaries,
    value_summary,
)

__all__ = [
    "BATCH",
    "DOMAIN",
    "OPSET",
    "CachedSteps",
    "Cost",
    "Effect",
    "Graph",
    "GraphBuilder",
    "Layer",
    "LayerSummary",
    "LayerTable",
    "NodeSummary",
    "Operator",
    "Origin",
    "Parameter",
    "Statistics",
    "StoredFormat",
    "Trace",
    "ValueSummary",
    "all_operators",
    "as_loaded",
    "attributes_of",
    "complete_arrays",
    "default_attributes",
    "drawn_arrays",
    "effects_of",
    "find_operator",
    "gradient_factors",
    "graph_of_weights",
    "graph_to_json",
    "infer_shapes",
    "is_registered",
    "known_shape",
    "layer_costs",
    "layer_keys",
    "layer_summaries",
    "make_attributes",
    "node_cost",
    "node_costs",
    "node_summaries",
    "operator",
    "ops",
    "parameter_key",
    "parameter_layout",
    "register_operator",
    "scale_gradients",
    "set_layer_keys",
    "set_statistics",
    "set_ties",
    "statistics_of",
    "stored_arrays",
    "ties_of",
    "total_cost",
    "unread_arrays",
    "value_summary",
    "with_arrays",
]
