"""Attention put together again: scores of queries and keys, their softmax, and the values weighted by it.

Exporters write it in pieces, each in its own way: with the scale before the product, behind it or half of it
on either side, with the heads parted before or behind the dense layers, with steps or examples first. What
they have in common is two products around a softmax; where the elements come from is asked of ``views``.

N examples, L queries, S keys, H heads, D features of each head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.graph import DOMAIN, infer_shapes
from netweave.graph.passes.attention_masks import Masks, has_causal_form, stored
from netweave.graph.passes.attention_scores import Heads, Scores, heads_of, scores_around
from netweave.graph.passes.projections import joined_rows, places_of, projected_output, projection_of
from netweave.graph.passes.prune import prune
from netweave.graph.passes.rewrite import Pass, Rewriter
from netweave.graph.passes.views import OpenSizes, View, views_after

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netweave.graph import Graph


@dataclass(frozen=True, slots=True)
class _Extent:
    """Extent of an attention fusion around its core; see ``attention_fusion``."""

    projected_only: bool
    heads_only: bool


def attention_fusion(*, projected_only: bool = False, heads_only: bool = False) -> Pass:
    """Return a pass that makes one operator of the nodes that compute attention.

    - MultiHeadAttention with the dense layers around it, where these are those that torch.nn and Keras have.
    - Attention of three sequences, whose last axis holds the heads one after another.
    - Attention of values with an axis for the heads, where each head is changed before: rotated, normalised.

    Args:
        projected_only: Whether only attention with its dense layers is made one operator.
        heads_only: Whether what stands around the core stays as it is: of values with an axis for the heads.
    """
    extent = _Extent(projected_only=projected_only, heads_only=heads_only)

    def edit(graph: Graph) -> None:
        rewriter, sizes, masks = Rewriter(graph), OpenSizes(), Masks(graph)
        is_changed = False
        for node in list(graph.nodes):
            scores = scores_around(node) if node.op_type == "Softmax" and not node.domain else None
            heads = heads_of(scores, sizes) if scores is not None else None
            if scores is not None and heads is not None:
                settled = masks.settled(scores)
                is_changed |= _replace(rewriter, settled, heads, sizes, extent)
        if is_changed:
            prune.edit(graph)
            infer_shapes(graph)

    return Pass(edit)


fuse_attention = attention_fusion()
"""The pass for frameworks that have attention of any values, with any mask."""

fuse_heads = attention_fusion(heads_only=True)
"""The pass for nets that are compared, which keep their dense layers."""


def attention_forms(graph: Graph) -> list[tuple[str, ...]]:
    """Return the operators of which each core of attention is made."""
    cores = [scores_around(node) for node in graph.nodes if node.op_type == "Softmax" and not node.domain]
    return [tuple(node.op_type for node in core.nodes) for core in cores if core is not None]


# What is put in its place.


@dataclass(frozen=True, slots=True)
class _Fused:
    """An operator for attention, and what it takes the place of.

    Attributes:
        op_type: The operator.
        inputs: Its inputs but for the mask.
        settings: Its attributes but for the mask's.
        result: The value that it makes.
        nodes: The nodes that it does the work of.
    """

    op_type: str
    inputs: Sequence[ir.Value]
    settings: Mapping[str, Any]
    result: ir.Value
    nodes: Sequence[ir.Node]


def _replace(rewriter: Rewriter, scores: Scores, heads: Heads, sizes: OpenSizes, extent: _Extent) -> bool:
    """Put one operator in the place of attention, the largest that fits; return whether one does."""
    mask = stored(scores.mask)
    is_causal = mask is not None and has_causal_form(mask)
    is_masked = scores.mask is not None and not is_causal
    is_projected = not is_masked and not extent.heads_only
    fused = _with_projections(rewriter, scores, heads, sizes) if is_projected else None
    if fused is None and not extent.projected_only and not extent.heads_only:
        fused = _of_sequences(rewriter, scores, heads, sizes)
    if fused is None and not extent.projected_only:
        fused = _of_heads(scores, heads)
    if fused is None:
        return False
    masks: list[ir.Value] = []
    if isinstance(scores.mask, ir.Value):
        masks = [scores.mask] if is_masked else []
    elif scores.mask is not None and is_masked:
        masks = [rewriter.initializer(ir.Tensor(scores.mask), f"{fused.result.name}/mask")]
    settings = {**fused.settings, "is_causal": 1 if is_causal else None}
    inputs = [*fused.inputs, *masks]
    rewriter.fuse(set(fused.nodes), fused.result, fused.op_type, inputs, settings, domain=DOMAIN)
    return True


def _with_projections(rewriter: Rewriter, scores: Scores, heads: Heads, sizes: OpenSizes) -> _Fused | None:
    """Return attention with the four dense layers around it, if it has them."""
    output = projected_output(scores.nodes[-1].outputs[0], heads.shape, sizes)
    projections = [projection_of(views[-1], sizes) for views in heads.all]
    layers = [each for each in projections if each is not None]
    if output is None or len(layers) < 3:
        return None
    arrays = [array for layer in layers for array in layer.arrays(rewriter)]
    inputs = [*(layer.source for layer in layers), *arrays, *output.arrays(rewriter)]
    far = [views[-1] for views in heads.all]
    nodes = [*scores.nodes, *output.nodes]
    nodes += [node for layer in layers for node in layer.nodes]
    nodes += [node for view in far for node in view.nodes]
    settings = {"num_heads": heads.shape[1], "scale": _scale(scores, far)}
    return _Fused("MultiHeadAttention", inputs, settings, output.result, nodes)


def _of_sequences(rewriter: Rewriter, scores: Scores, heads: Heads, sizes: OpenSizes) -> _Fused | None:
    """Return attention of three sequences (N, steps, H * D), if the heads are parts of such."""
    chosen = [next((view for view in views if _begin(view) is not None), None) for views in heads.all]
    views = [view for view in chosen if view is not None]
    joined = views_after(scores.nodes[-1].outputs[0], sizes)
    made = next((pair for pair in joined if _is_joined(pair[1], heads.shape)), None)
    if len(views) < 3 or made is None:
        return None
    result, after = made
    nodes = [*scores.nodes, *after.nodes, *(node for view in views for node in view.nodes)]
    settings = {"num_heads": heads.shape[1], "scale": _scale(scores, views)}
    last = result.producer()
    assert last is not None
    return _Fused("Attention", _cut(rewriter, last, views), settings, result, nodes)


def _of_heads(scores: Scores, heads: Heads) -> _Fused | None:
    """Return attention of values with an axis for the heads."""
    views = []
    for each in heads.all:
        plain = [view for view in each if view.is_whole]
        if not plain:
            return None
        views.append(plain[-1])
    nodes = [*scores.nodes, *(node for view in views for node in view.nodes)]
    settings = {"scale": _scale(scores, views)}
    return _Fused("Attention", [view.source for view in views], settings, scores.nodes[-1].outputs[0], nodes)


def _scale(scores: Scores, views: Sequence[View]) -> float:
    return scores.factor * views[0].factor * views[1].factor


def _begin(view: View) -> int | None:
    """Return the first of the columns of a sequence (N, steps, C) that the heads are, one after another."""
    count, num_heads, steps, width = view.elements.shape
    places = places_of(view) if len(view.sizes) == 3 else None
    if places is None or view.sizes[:2] != (count, steps):
        return None
    rows, columns = places
    begin = int(columns[0, 0])
    is_plain = np.array_equal(rows.reshape(-1), np.arange(count * steps))
    wanted = np.arange(begin, begin + num_heads * width).reshape(num_heads, width)
    return begin if is_plain and np.array_equal(columns, wanted) else None


def _is_joined(view: View, shape: tuple[int, ...]) -> bool:
    """Return whether a view of heads (N, H, L, D) is the sequence (N, L, H * D)."""
    if view.elements.ndim != 3 or view.elements.shape[:2] != (shape[0], shape[2]):
        return False
    rows = joined_rows(view, shape)
    return rows is not None and np.array_equal(rows, np.arange(rows.size))


def _cut(rewriter: Rewriter, before: ir.Node, views: Sequence[View]) -> list[ir.Value]:
    """Return the sequences that queries, keys and values are, cut out of what holds several of them."""
    begins = [_begin(view) or 0 for view in views]
    widths = [view.elements.shape[1] * view.elements.shape[3] for view in views]
    sources = {view.source for view in views}
    if (
        len(sources) == 1
        and begins == [sum(widths[:at]) for at in range(3)]
        and sum(widths) == views[0].sizes[2]
    ):
        counts = rewriter.initializer(ir.Tensor(np.array(widths, np.int64)), f"{views[0].source.name}/widths")
        split = rewriter.insert(before, "Split", [views[0].source, counts], {"axis": 2}, num_outputs=3)
        return list(split.outputs)
    return [
        view.source if width == view.sizes[2] else _part(rewriter, before, view.source, begin, width)
        for view, begin, width in zip(views, begins, widths, strict=True)
    ]


def _part(rewriter: Rewriter, before: ir.Node, value: ir.Value, begin: int, width: int) -> ir.Value:
    """Return some columns of a sequence."""
    bounds = [
        rewriter.initializer(ir.Tensor(np.array([number], np.int64)), f"{value.name}/part")
        for number in (begin, begin + width, 2)
    ]
    return rewriter.insert(before, "Slice", [value, *bounds]).outputs[0]
