"""Crops that are the padding of a transposed convolution: frameworks say the same cut in either way."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.graph import attributes_of, known_shape
from netweave.graph.passes.rewrite import Pass, Rewriter, has_one_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.graph import Graph

Cut = dict[int, tuple[int, int]]
"""How much a slice leaves out, before and after, by axis."""


@Pass
def absorb_crops(graph: Graph) -> None:
    """Drop slices that leave out nothing, and make the others behind transposed convolutions their padding.

    Sizes have to be known; where they are not, a slice stays as it is.
    """
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        cut = _cut(node) if (node.domain, node.op_type) == ("", "Slice") else None
        source = node.inputs[0]
        if cut is None or source is None:
            continue
        maker = source.producer()
        if not any(any(row) for row in cut.values()):
            rewriter.bypass(node, source)
        elif maker is not None and has_one_reader(source) and _is_plain_deconvolution(maker, cut):
            _pad(maker, cut)
            source.shape = node.outputs[0].shape
            rewriter.bypass(node, source)


def _cut(node: ir.Node) -> Cut | None:
    """Return what a slice leaves out; None if it takes steps, or its bounds or sizes are not known."""
    shape = known_shape(node.inputs[0]) if node.inputs[0] is not None else None
    bounds = [_numbers(value) for value in node.inputs[1:]]
    if shape is None or len(bounds) < 2 or bounds[0] is None or bounds[1] is None:
        return None
    axes = bounds[2] if len(bounds) > 2 else list(range(len(bounds[0])))
    steps = bounds[3] if len(bounds) > 3 else [1] * len(bounds[0])
    if axes is None or steps is None or any(step != 1 for step in steps):
        return None
    cut: Cut = {}
    for start, end, axis in zip(bounds[0], bounds[1], axes, strict=True):
        size = shape[axis]
        if size is None:
            if start != 0 or end < 2**31 - 1:
                return None
            continue
        begin, stop = (max(0, min(x + size if x < 0 else x, size)) for x in (start, end))
        if stop <= begin:
            return None
        cut[axis % len(shape)] = (begin, size - stop)
    return cut


def _numbers(value: ir.Value | None) -> list[int] | None:
    if value is None or value.const_value is None:
        return None
    return [int(x) for x in value.const_value.numpy().reshape(-1)]


def _is_plain_deconvolution(node: ir.Node, cut: Cut) -> bool:
    """Return whether a node is a transposed convolution with explicit padding, whose output is cropped."""
    attributes = attributes_of(node)
    plain = attributes.get("auto_pad", "NOTSET") == "NOTSET" and "output_shape" not in attributes
    is_deconvolution = (node.domain, node.op_type) == ("", "ConvTranspose")
    return is_deconvolution and plain and all(axis >= 2 for axis, row in cut.items() if any(row))


def _pad(node: ir.Node, cut: Cut) -> None:
    """Add what is cut to the padding of a transposed convolution, which is what it leaves out itself."""
    rank = len(known_shape(node.inputs[1]) or ()) - 2
    pads: Sequence[int] = attributes_of(node).get("pads") or (0,) * (2 * rank)
    rows = [cut.get(axis + 2, (0, 0)) for axis in range(rank)]
    added = itertools.chain((row[0] for row in rows), (row[1] for row in rows))
    node.attributes["pads"] = ir.AttrInt64s("pads", [p + more for p, more in zip(pads, added, strict=True)])
