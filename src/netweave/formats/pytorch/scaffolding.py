"""Seeing through what PyTorch's exporter builds around the operators that a module asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph import effects_of, infer_shapes, parameter_key
from netweave.passes import fold
from netweave.passes.rewrite import Pass, Rewriter, remove_unneeded

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.graph import Graph


def see_through(graph: Graph) -> None:
    """Compute what depends on no input, and drop copies, casts to the same type and biases of zero."""
    _like.edit(graph)
    fold.edit(graph)
    _plain.edit(graph)
    fold.edit(graph)
    _unused.edit(graph)
    infer_shapes(graph)


def settle_reshapes(model: ir.Model) -> None:
    """Give each Reshape its sizes as numbers where they are computed, though the tracer knew them.

    Args:
        model: The model as exported, with the tracer's shapes: a size that is open stays one.
    """
    for node in model.graph:
        if (node.domain, node.op_type) != ("", "Reshape") or node.inputs[1] is None:
            continue
        if node.inputs[1].const_value is None and (sizes := _settled(node)) is not None:
            tensor = ir.Tensor(np.array(sizes, np.int64), name=f"{node.outputs[0].name}/sizes")
            value = ir.Value(
                name=tensor.name,
                shape=ir.Shape([len(sizes)]),
                type=ir.TensorType(tensor.dtype),
                const_value=tensor,
            )
            model.graph.register_initializer(value)
            node.replace_input_with(1, value)
            node.attributes.pop("allowzero", None)


def _settled(node: ir.Node) -> list[int] | None:
    """Return sizes as Reshape takes them: 0 keeps an axis, one -1 is what is left; None if more are open."""
    source, made = node.inputs[0], node.outputs[0].shape
    if source is None or made is None or 0 in made.dims:
        return None
    old = source.shape.dims if source.shape is not None else ()
    sizes = []
    for axis, dim in enumerate(made.dims):
        kept = not isinstance(dim, int) and dim.value is not None and axis < len(old) and old[axis] == dim
        sizes.append(dim if isinstance(dim, int) else 0 if kept else -1)
    return sizes if sizes.count(-1) <= 1 else None


@Pass
def _like(graph: Graph) -> None:
    """Make casts to the type of another value casts to a type that is named."""
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        if (node.domain, node.op_type) != ("", "CastLike") or node.inputs[1] is None:
            continue
        dtype = node.inputs[1].dtype
        if dtype is not None:
            rewriter.replace([node], "Cast", [node.inputs[0]], {"to": int(dtype)})


@Pass
def _plain(graph: Graph) -> None:
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        rule = _RULES.get(node.op_type) if node.domain == "" else None
        if rule is not None:
            rule(rewriter, node)


@Pass
def _unused(graph: Graph) -> None:
    remove_unneeded(graph, keep=lambda node: bool(effects_of(node)))


def _copy(rewriter: Rewriter, node: ir.Node) -> None:
    if node.inputs[0] is not None:
        rewriter.bypass(node, node.inputs[0])


def _cast(rewriter: Rewriter, node: ir.Node) -> None:
    source = node.inputs[0]
    if source is not None and source.dtype is not None and source.dtype == node.outputs[0].dtype:
        rewriter.bypass(node, source)


def _expand(rewriter: Rewriter, node: ir.Node) -> None:
    source = node.inputs[0]
    if source is not None and source.shape is not None and source.shape == node.outputs[0].shape:
        rewriter.bypass(node, source)


def _conv(rewriter: Rewriter, node: ir.Node) -> None:
    """A convolution without bias is written with one of zeros."""
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is None or parameter_key(bias) is not None or bias.const_value is None:
        return
    if not bias.const_value.numpy().any():
        node.replace_input_with(2, None)


_RULES: dict[str, Callable[[Rewriter, ir.Node], None]] = {
    "Cast": _cast,
    "Conv": _conv,
    "ConvTranspose": _conv,
    "Expand": _expand,
    "Identity": _copy,
}
