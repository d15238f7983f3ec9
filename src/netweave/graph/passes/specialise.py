"""A graph for given input sizes: rules that depend on sizes become numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.graph import DOMAIN, attributes_of, infer_shapes, known_shape, make_attributes
from netweave.graph.ops.pooling import PoolWindows, standard_ceil_mode
from netweave.graph.passes.rewrite import Pass, Rewriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import onnx_ir as ir

    from netweave.graph import Graph

_SAME = {"SAME_UPPER", "SAME_LOWER"}

PADDING_RULE_PROP = "netweave.padding_rule"
"""Metadata of a node whose pads are those of a rule at this size: ``SAME_UPPER`` or ``SAME_LOWER``.

Two poolings may take the same windows at any size, though their pads at this one do not show it.
"""


def specialise(graph: Graph, shapes: Mapping[str, Sequence[int | str | None]] | None = None) -> Graph:
    """Return the graph for given input sizes; ``graph`` is not changed.

    All shapes are inferred. ``auto_pad`` becomes explicit pads, ``output_shape`` of a ConvTranspose too,
    and a pooling of the domain ``netweave`` whose windows are ONNX's at this size becomes ONNX's. What
    depends on a size that is still open stays a rule, and so does ``ceil_mode``.

    Args:
        graph: The graph.
        shapes: New sizes by input name; None keeps a size as it is, a string makes it symbolic.

    Raises:
        UsageError: There is no such input, or it has another number of axes.
        ShapeError: The sizes do not fit; the message names the node.
    """
    copy = graph.clone()
    infer_shapes(copy, shapes)
    explicit.edit(copy)
    return copy


@Pass
def explicit(graph: Graph) -> None:
    """Make rules explicit where the sizes that they depend on are known."""
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        rule = _RULES.get((node.domain, node.op_type))
        if rule is not None:
            rule(rewriter, node)


def same_pads(
    sizes: Sequence[int],
    kernel: Sequence[int],
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    upper: bool,
) -> list[int]:
    """Return the pads of SAME padding: all begins, then all ends.

    The output has ``ceil(size / stride)`` elements; an odd element of padding goes to the end
    (``upper``) or to the begin. ONNX Conv-22, which is TensorFlow's rule.

    >>> same_pads([6, 5], [3, 3], strides=[2, 2], dilations=[1, 1], upper=True)
    [0, 1, 1, 1]
    """
    begins, ends = [], []
    for size, k, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        total = max((-(-size // stride) - 1) * stride + (k - 1) * dilation + 1 - size, 0)
        less, more = total // 2, total - total // 2
        begins.append(less if upper else more)
        ends.append(more if upper else less)
    return begins + ends


def _spatial(value: ir.Value | None) -> list[int] | None:
    shape = known_shape(value)
    if shape is None or len(shape) < 3:
        return None
    sizes = [size for size in shape[2:] if size is not None]
    return sizes if len(sizes) == len(shape) - 2 else None


def _kernel(node: ir.Node, attributes: Mapping[str, Any]) -> list[int] | None:
    if "kernel_shape" in attributes:
        return list(attributes["kernel_shape"])
    return _spatial(node.inputs[1]) if len(node.inputs) > 1 else None


def _set(node: ir.Node, **attributes: Any) -> None:
    """Set attributes; those given as None are removed."""
    for name in attributes:
        node.attributes.pop(name, None)
    node.attributes.update({made.name: made for made in make_attributes(attributes)})


def _pad_windows(rewriter: Rewriter, node: ir.Node) -> None:
    """Make ``auto_pad`` of a convolution or pooling explicit."""
    attributes = attributes_of(node)
    auto_pad = attributes.get("auto_pad", "NOTSET")
    sizes, kernel = _spatial(node.inputs[0]), _kernel(node, attributes)
    if kernel is None or auto_pad == "NOTSET":
        return
    ones = [1] * len(kernel)
    if auto_pad in _SAME:
        if sizes is None:
            return
        pads = same_pads(
            sizes,
            kernel,
            strides=attributes.get("strides", ones),
            dilations=attributes.get("dilations", ones),
            upper=auto_pad == "SAME_UPPER",
        )
        # its windows are counted by ceil(size / stride), whatever ceil_mode says
        _set(node, auto_pad=None, pads=pads, ceil_mode=None)
        node.metadata_props[PADDING_RULE_PROP] = auto_pad
    else:
        _set(node, auto_pad=None, pads=[0] * (2 * len(kernel)))


def _pad_transposed(rewriter: Rewriter, node: ir.Node) -> None:
    """Make ``auto_pad`` and ``output_shape`` of a ConvTranspose explicit.

    ONNX ConvTranspose-22: the total padding is what the wanted size lacks; where it lacks nothing, the
    output is grown at the end.
    """
    attributes = attributes_of(node)
    auto_pad = attributes.get("auto_pad", "NOTSET")
    sizes, kernel = _spatial(node.inputs[0]), _kernel(node, attributes)
    if kernel is None or (auto_pad == "NOTSET" and "output_shape" not in attributes):
        return
    if auto_pad == "VALID" and "output_shape" not in attributes:
        _set(node, auto_pad=None, pads=[0] * (2 * len(kernel)))
        return
    if sizes is None:
        return
    ones = [1] * len(kernel)
    strides, dilations = attributes.get("strides", ones), attributes.get("dilations", ones)
    grown = list(attributes.get("output_padding", [0] * len(kernel)))
    wanted = attributes.get("output_shape") or [n * s for n, s in zip(sizes, strides, strict=True)]
    begins, ends = [], []
    for axis, (size, k) in enumerate(zip(sizes, kernel, strict=True)):
        full = (size - 1) * strides[axis] + (k - 1) * dilations[axis] + 1 + grown[axis]
        total = full - wanted[-len(kernel) :][axis]
        if total < 0:
            grown[axis] -= total
            total = 0
        less, more = total // 2, total - total // 2
        begins.append(less if auto_pad == "SAME_UPPER" else more)
        ends.append(more if auto_pad == "SAME_UPPER" else less)
    if any(extra >= max(s, d) for extra, s, d in zip(grown, strides, dilations, strict=True)):
        return  # more than output_padding can say
    _set(
        node,
        auto_pad=None,
        output_shape=None,
        pads=begins + ends,
        output_padding=grown if any(grown) else None,
    )


def _standard_pooling(rewriter: Rewriter, node: ir.Node) -> None:
    """Write a pooling of the domain ``netweave`` as ONNX's, if their windows are the same at this size."""
    attributes, sizes = attributes_of(node), _spatial(node.inputs[0])
    if sizes is None:
        return
    windows = PoolWindows.of(node.domain, attributes)
    rounding = windows.equal_rounding(sizes, ("floor", "ceil"))
    if rounding is None:
        return
    attributes.pop("rounding")
    standard = attributes | {"ceil_mode": standard_ceil_mode(rounding)}
    if node.op_type == "AveragePool":
        standard["count_include_pad"] = int(windows.counts_padding)  # the two domains have other defaults
    rewriter.replace([node], node.op_type, node.inputs, standard)


_RULES = {
    ("", "AveragePool"): _pad_windows,
    ("", "Conv"): _pad_windows,
    ("", "ConvTranspose"): _pad_transposed,
    ("", "LpPool"): _pad_windows,
    ("", "MaxPool"): _pad_windows,
    (DOMAIN, "AveragePool"): _standard_pooling,
    (DOMAIN, "MaxPool"): _standard_pooling,
}
