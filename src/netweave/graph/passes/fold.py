"""Computing ahead of time what no input changes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.errors import RunError
from netweave.graph import (
    DOMAIN,
    attributes_of,
    effects_of,
    find_operator,
    known_shape,
    parameter_key,
    parameter_layout,
)
from netweave.graph.budget import MAX_COMPUTED, MAX_COMPUTED_IN_ALL, MAX_FOLLOWED
from netweave.graph.parameters import source_keys, tag_parameter, tag_sources
from netweave.graph.passes.reference import evaluate_node
from netweave.graph.passes.rewrite import Pass, Rewriter, has_subgraphs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.graph import Graph
    from netweave.graph.parameters import Step


_LOGGER = logging.getLogger(__name__)

MAX_DEPTH = 4
"""A constant behind more evaluations than this is computed at once: each may read the one before twice."""


@Pass
def fold(graph: Graph) -> None:
    """Replace what depends on stored values only by stored values.

    Also the Shape of a value whose sizes are known. Nodes with effects stay, and so does what would
    only grow. Large arrays are computed when they are read; an array that is only transposed or reshaped
    still names its stored array. A node that cannot be computed stays.
    """
    rewriter, room = Rewriter(graph), MAX_COMPUTED_IN_ALL
    depths: dict[int, int] = {}
    for node in list(graph.nodes):
        growth = _growth(node) if _is_constant(node) else None
        if growth is not None and growth <= room:
            room -= growth
            _fold_node(rewriter, node, depths)


def _is_constant(node: ir.Node) -> bool:
    if effects_of(node) or has_subgraphs(node) or node.domain not in {"", DOMAIN}:
        return False
    if any(value.is_graph_output() for value in node.outputs):
        return False
    if node.domain == "" and node.op_type in {"Shape", "Size"}:
        shape = known_shape(node.inputs[0])
        return shape is not None and None not in shape
    return all(value is None or _stored(value) is not None for value in node.inputs)


def _stored(value: ir.Value) -> ir.TensorProtocol | None:
    return value.const_value if value.is_initializer() and not value.is_graph_input() else None


def _count(value: ir.Value) -> int | None:
    shape = known_shape(value)
    if shape is None or None in shape:
        return None
    return int(np.prod([size or 0 for size in shape]))


def _growth(node: ir.Node) -> int | None:
    """Return how many elements the outputs of a node have beyond its inputs; None if it stays a node."""
    counts = [_count(value) for value in node.outputs if value.name]
    made = sum(count for count in counts if count is not None)
    read = sum(_count(value) or 0 for value in node.inputs if value is not None)
    if None in counts or made > max(read, MAX_COMPUTED):
        return None
    return max(0, made - read)


def _fold_node(rewriter: Rewriter, node: ir.Node, depths: dict[int, int]) -> None:
    """Replace a node by constants; one that cannot be computed stays, for the net's run to tell.

    Args:
        rewriter: Changes the graph.
        node: The node.
        depths: How many evaluations deep a tensor is that is computed when it is read, by its ``id``.
    """
    evaluate = _Evaluation(node, rewriter.graph.place_of(node))
    depth = 1 + max((depths.get(id(tensor), 0) for tensor in evaluate.inputs), default=0)
    wanted = [(index, value) for index, value in enumerate(node.outputs) if value.name and value.uses()]
    try:
        tensors = [_tensor(evaluate, index, value, is_eager=depth > MAX_DEPTH) for index, value in wanted]
    except RunError as error:
        _LOGGER.debug("not folded: %s", error)
        return
    for (_, value), tensor in zip(wanted, tensors, strict=True):
        if isinstance(tensor, ir.LazyTensor):
            depths[id(tensor)] = depth
        new = rewriter.replace_constant(value, tensor)
        _keep_parameter(node, new)
        _keep_sources(node, new)
    rewriter.graph.model.graph.remove(node, safe=True)


def _tensor(evaluate: _Evaluation, index: int, value: ir.Value, *, is_eager: bool) -> ir.TensorProtocol:
    if not is_eager and (_count(value) or 0) > MAX_FOLLOWED and value.dtype is not None:
        return _lazy(evaluate, index, value)
    return ir.Tensor(evaluate(index), name=value.name)


def _lazy(evaluate: _Evaluation, index: int, value: ir.Value) -> ir.LazyTensor:
    assert value.dtype is not None
    assert value.shape is not None
    return ir.LazyTensor(
        lambda: ir.Tensor(evaluate(index)), dtype=value.dtype, shape=ir.Shape(value.shape), name=value.name
    )


class _Evaluation:
    """A node whose inputs are stored, computed when it is asked for; later changes do not reach it."""

    def __init__(self, node: ir.Node, place: str) -> None:
        self._node = node
        self._place = place
        self.inputs = [None if value is None else value.const_value for value in node.inputs]
        self._attributes = attributes_of(node)
        self._sizes = known_shape(node.inputs[0]) if node.inputs else None
        self._proto = None if node.domain else ir.serde.serialize_node(node)

    def __call__(self, index: int) -> np.ndarray:
        """Return an output.

        Raises:
            RunError: It cannot be computed.
        """
        try:
            return np.asarray(self._outputs()[index], order="C")  # np.ascontiguousarray makes numbers lists
        except Exception as error:  # any operator's any error
            raise RunError(f"{self._place}: cannot be computed from stored arrays: {error}") from error

    def _outputs(self) -> Sequence[np.ndarray]:
        if self._proto is None:
            arrays = [tensor.numpy() for tensor in self.inputs if tensor is not None]
            return find_operator(self._node.op_type).forward(arrays, self._attributes)
        if self._proto.op_type in {"Shape", "Size"}:
            return [_shape(self._proto.op_type, self._sizes or (), self._attributes)]
        return evaluate_node(self._proto, [t.numpy() for t in self.inputs if t is not None])


def _shape(op_type: str, sizes: Sequence[int | None], attributes: dict[str, int]) -> np.ndarray:
    known = np.array([size or 0 for size in sizes], np.int64)
    if op_type == "Size":
        return np.asarray(known.prod(), np.int64)
    return known[attributes.get("start", 0) : attributes.get("end")]


def _keep_parameter(node: ir.Node, value: ir.Value) -> None:
    """Note on a transposed or reshaped array which stored array it still is."""
    source = node.inputs[0] if node.inputs else None
    key = parameter_key(source) if source is not None else None
    if source is None or key is None or node.op_type not in {"Transpose", "Reshape"}:
        return
    if node.op_type == "Transpose":
        rank = len(value.shape or ())
        step: Step = ("transpose", tuple(node.attributes.get_ints("perm", range(rank)[::-1])))
    else:
        step = ("reshape", tuple(size for size in known_shape(value) or () if size is not None))
    tag_parameter(value, key, [*parameter_layout(source), step])


def _keep_sources(node: ir.Node, value: ir.Value) -> None:
    """Note on a computed array which stored arrays it comes from, so that it is not taken for a setting."""
    keys = dict.fromkeys(key for source in node.inputs if source is not None for key in source_keys(source))
    if keys and parameter_key(value) is None:
        tag_sources(value, list(keys))
