"""Checks of the names in an ONNX file: protobuf hands over bytes where a text is not UTF-8."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.errors import ReadError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import onnx


def check_texts(model: onnx.ModelProto, *, place: str) -> None:
    """Check that every name in a model is a text.

    Raises:
        ReadError: One is not.
    """
    for text in _model_texts(model):
        if not isinstance(text, str):
            raise ReadError(
                f"holds the name {text!r:.60}, which is not UTF-8; the file is damaged", place=place
            )


def _model_texts(model: onnx.ModelProto) -> Iterator[object]:
    for opset in model.opset_import:
        yield opset.domain
    for entry in model.metadata_props:
        yield from (entry.key, entry.value)
    yield from _graph_texts(model.graph)
    for function in model.functions:
        yield from (function.name, function.domain, function.overload)
        yield from (*function.input, *function.output, *function.attribute)
        yield from _node_texts(function.node)
        yield from _attribute_texts(function.attribute_proto)


def _graph_texts(graph: onnx.GraphProto) -> Iterator[object]:
    yield graph.name
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield value.name
        yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
        yield from (text for entry in value.metadata_props for text in (entry.key, entry.value))
    for tensor in graph.initializer:
        yield from _tensor_texts(tensor)
    for sparse in graph.sparse_initializer:
        yield from (*_tensor_texts(sparse.values), *_tensor_texts(sparse.indices))
    yield from _node_texts(graph.node)


def _node_texts(nodes: Iterable[onnx.NodeProto]) -> Iterator[object]:
    for node in nodes:
        yield from (node.name, node.op_type, node.domain, node.overload, *node.input, *node.output)
        yield from (text for entry in node.metadata_props for text in (entry.key, entry.value))
        yield from _attribute_texts(node.attribute)


def _tensor_texts(tensor: onnx.TensorProto) -> Iterator[object]:
    yield tensor.name
    yield from (text for entry in tensor.external_data for text in (entry.key, entry.value))


def _attribute_texts(attributes: Iterable[onnx.AttributeProto]) -> Iterator[object]:
    for attribute in attributes:
        yield from (attribute.name, attribute.ref_attr_name)
        if attribute.HasField("t"):
            yield from _tensor_texts(attribute.t)
        for tensor in attribute.tensors:
            yield from _tensor_texts(tensor)
        if attribute.HasField("g"):
            yield from _graph_texts(attribute.g)
        for graph in attribute.graphs:
            yield from _graph_texts(graph)
