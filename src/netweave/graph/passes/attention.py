"""Fusion of attention and its masks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.graph import DOMAIN, attributes_of, infer_shapes, known_shape
from netweave.graph.passes.masks import NEVER, Masks, has_causal_form, stored
from netweave.graph.passes.projections import joined_rows, places_of, projected_output, projection_of
from netweave.graph.passes.rewriting import Pass, Rewriter, has_one_reader, prune
from netweave.graph.passes.views import (
    OpenSizes,
    View,
    is_view,
    number_of,
    scalar_factor,
    views_after,
    views_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netweave.graph import Graph


# N examples, L queries, S keys, H heads, D features of each head.


@dataclass(frozen=True, slots=True)
class Scores:
    """The core of attention.

    Attributes:
        query: First factor of the scores.
        key: Second factor of the scores, its last two axes exchanged.
        value: What the softmax weights.
        factor: What the scores are multiplied by.
        cap: Soft cap of the scores: they are ``cap * tanh(scores / cap)``; 0 for none.
        mask: What is added to the scores: a value, or numbers.
        nodes: The nodes from the scores' product to the last one.
    """

    query: ir.Value
    key: ir.Value
    value: ir.Value
    factor: float
    cap: float
    mask: ir.Value | np.ndarray | None
    nodes: tuple[ir.Node, ...]


@dataclass(frozen=True, slots=True)
class Heads:
    """Queries, keys and values of all heads, (N, H, steps, D): views of earlier values, the nearest first."""

    query: list[View]
    key: list[View]
    value: list[View]

    @property
    def all(self) -> tuple[list[View], list[View], list[View]]:
        """The three."""
        return self.query, self.key, self.value

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the weighted values: (N, H, L, D)."""
        return (*self.query[0].elements.shape[:3], self.value[0].elements.shape[3])


def scores_around(softmax: ir.Node) -> Scores | None:
    """Return the core of attention that a softmax stands in."""
    weights = softmax.outputs[0]
    shape = known_shape(weights)
    if shape is None or attributes_of(softmax).get("axis", -1) not in {-1, len(shape) - 1}:
        return None
    guard = _guard(softmax)
    if guard:
        weights = guard[-1].outputs[0]
    last = next((use.node for use in weights.uses() if use.idx == 0), None)
    if last is None or last.op_type != "MatMul" or last.domain or not has_one_reader(weights):
        return None
    unmasked = _unmasked(softmax.inputs[0]) if softmax.inputs[0] is not None else None
    if unmasked is None:
        return None
    scores, added, behind, of_mask = unmasked
    nodes = [*of_mask, softmax, *guard, last]
    cap = 0.0
    capped = _capped(scores)
    if capped is not None:
        cap, scores, between = capped
        nodes[:0] = between
    product, value = _scaled_product(scores), last.inputs[1]
    if product is None or value is None or value.const_value is not None or (cap and behind != 1):
        return None
    factor, inner = behind * product[0], product[1]
    query, key = inner[0].inputs
    if query is None or key is None or query.const_value is not None or key.const_value is not None:
        return None
    return Scores(query, key, value, factor, cap, added, (*inner, *nodes))


def _unmasked(
    scores: ir.Value,
) -> tuple[ir.Value, ir.Value | np.ndarray | None, float, list[ir.Node]] | None:
    """Return scores before they are masked, what masks add, the factor behind that, and the nodes."""
    nodes: list[ir.Node] = []
    masks: list[ir.Value | np.ndarray] = []
    behind, scaled = 1.0, _scaled_behind_mask(scores)
    if scaled is not None:
        nodes.append(scaled[0])
        scores, behind = scaled[1:]
    while (masked := _masked(scores)) is not None:
        node, scores, mask = masked
        nodes.insert(0, node)
        masks.append(mask)
    numbers = [each for mask in masks if (each := stored(mask)) is not None]
    if (len(masks) > 1 or scaled is not None) and len(numbers) < len(masks):
        return None
    if scaled is not None:  # the factor is on what a mask adds, too
        masks = [*(_multiplied(each, behind) for each in numbers)]
        numbers = [each for each in masks if isinstance(each, np.ndarray)]
    added = masks[0] if len(masks) == 1 else _together(numbers) if masks else None
    return scores, added, behind, nodes


def _scaled_behind_mask(scores: ir.Value) -> tuple[ir.Node, ir.Value, float] | None:
    """Return the node that multiplies masked scores by a number above 0, the scores, and the number."""
    node = scores.producer()
    scaled = scalar_factor(node) if node is not None and has_one_reader(scores) else None
    if node is None or scaled is None or scaled[1] <= 0 or _masked(scaled[0]) is None:
        return None
    return node, *scaled


def _multiplied(mask: np.ndarray, factor: float) -> np.ndarray:
    """Return what a mask adds to scores, times a factor; what it takes out stays out."""
    return np.where(mask <= NEVER, mask, mask * np.float32(factor)).astype(mask.dtype)


def _together(masks: Sequence[np.ndarray]) -> np.ndarray:
    """Return what several masks add to scores, with an axis for the examples and one for the heads."""
    with np.errstate(over="ignore"):
        total: np.ndarray = sum(masks[1:], start=masks[0]).astype(np.float32)
    total = np.where(total <= NEVER, -np.inf, total).astype(np.float32)
    return total.reshape((1,) * (4 - total.ndim) + total.shape)


def _capped(scores: ir.Value) -> tuple[float, ir.Value, list[ir.Node]] | None:
    """Return the soft cap of scores, the scores before it, and its nodes."""
    last = scores.producer()
    outer = scalar_factor(last) if last is not None and has_one_reader(scores) else None
    bent = outer[0].producer() if outer is not None else None
    if last is None or outer is None or bent is None or bent.op_type != "Tanh" or bent.inputs[0] is None:
        return None
    first = bent.inputs[0].producer()
    inner = scalar_factor(first) if first is not None else None
    if first is None or inner is None or not np.isclose(inner[1] * outer[1], 1):
        return None
    return outer[1], inner[0], [first, bent, last]


def _guard(softmax: ir.Node) -> list[ir.Node]:
    """Return the nodes that put zeros where a softmax over no key at all gives no numbers."""
    weights = softmax.outputs[0]
    readers = {use.node.op_type: use.node for use in weights.uses()}
    test, choice = readers.get("IsNaN"), readers.get("Where")
    if readers.keys() != {"IsNaN", "Where"} or test is None or choice is None or weights.is_graph_output():
        return []
    is_guard = choice.inputs[0] is test.outputs[0] and choice.inputs[2] is weights
    return [test, choice] if is_guard and number_of(choice.inputs[1]) == 0 else []


def _scaled_product(value: ir.Value) -> tuple[float, list[ir.Node]] | None:
    """Return the factor and the nodes of a product of two matrices, its result multiplied by numbers."""
    factor = 1.0
    nodes: list[ir.Node] = []
    while (node := value.producer()) is not None and has_one_reader(value) and not node.domain:
        nodes.insert(0, node)
        if node.op_type == "MatMul":
            return factor, nodes
        scaled = scalar_factor(node)
        if scaled is None:
            return None
        value, factor = scaled[0], factor * scaled[1]
    return None


def _masked(scores: ir.Value) -> tuple[ir.Node, ir.Value, ir.Value | np.ndarray] | None:
    """Return the node that masks scores, the scores, and what is added to them."""
    node = scores.producer()
    if node is None or node.domain or not has_one_reader(scores):
        return None
    if node.op_type == "Add":
        for scored, mask in (tuple(node.inputs), tuple(reversed(node.inputs))):
            if scored is not None and mask is not None and _is_scored(scored):
                return node, scored, mask
    if node.op_type == "Sub" and node.inputs[0] is not None and _is_scored(node.inputs[0]):
        bias = stored(node.inputs[1])
        return None if bias is None else (node, node.inputs[0], -bias)
    if node.op_type == "Where" and node.inputs[0] is not None and node.inputs[0].const_value is not None:
        allowed = node.inputs[0].const_value.numpy()
        first, second = node.inputs[1:]
        for scored, fill, counts in ((first, second, allowed), (second, first, ~allowed)):
            never = fill.const_value if fill is not None else None
            if scored is not None and never is not None and never.size == 1 and never.numpy().max() <= NEVER:
                return node, scored, np.where(counts, np.float32(0), never.numpy().reshape(()))
    return None


def _is_scored(value: ir.Value) -> bool:
    """Return whether a value is scores, which may be capped, and masked already."""
    capped = _capped(value)
    if capped is None and _masked(value) is not None:
        return True
    return _scaled_product(value if capped is None else capped[1]) is not None


def heads_of(scores: Scores, sizes: OpenSizes) -> Heads | None:
    """Return queries, keys and values as views with an axis for the heads; None where they have none."""
    query = views_of(scores.query, sizes, scales=True)
    turned = [
        replace(view, elements=view.elements.swapaxes(-1, -2))
        for view in views_of(scores.key, sizes, scales=True)
        if view.elements.ndim == 4
    ]
    value = views_of(scores.value, sizes)
    if not query or not turned or not value:
        return None
    shapes = [views[0].elements.shape for views in (query, turned, value)]
    if any(len(shape) != 4 for shape in shapes) or len({shape[:2] for shape in shapes}) > 1:
        return None
    return Heads(query, turned, value)


# Exporters write it in pieces, each in its own way: with the scale before the product, behind it or half of
# it on either side, with the heads parted before or behind the dense layers, with steps or examples first.
# What they have in common is two products around a softmax; where the elements come from is asked of
# ``views``.
#
# N examples, L queries, S keys, H heads, D features of each head.


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
        rewriter, masks = Rewriter(graph), Masks(graph)
        is_changed = False
        for node in list(graph.nodes):
            scores = scores_around(node) if node.op_type == "Softmax" and not node.domain else None
            if scores is not None and extent.heads_only and _sink_scales(rewriter, scores):
                scores = scores_around(node)
            sizes = OpenSizes()
            heads = heads_of(scores, sizes) if scores is not None else None
            is_capped = scores is not None and scores.cap != 0
            if scores is not None and heads is not None and (extent.heads_only or not is_capped):
                settled = _settled(scores, masks)
                is_changed |= _replace(rewriter, settled, heads, sizes, extent)
        if is_changed:
            prune.edit(graph)
            infer_shapes(graph)

    return Pass(edit)


def _sink_scales(rewriter: Rewriter, scores: Scores) -> bool:
    """Multiply queries and keys behind their views instead of before; return whether one was."""
    product = next(node for node in scores.nodes if node.op_type == "MatMul")
    is_changed = False
    for index, value in enumerate(product.inputs):
        scaled = _scaled_before_views(value) if value is not None else None
        if value is None or scaled is None:
            continue
        node, source, factor = scaled
        number = rewriter.initializer(ir.Tensor(np.array(factor, np.float32)), f"{node.name}/scale")
        behind = rewriter.insert(product, "Mul", [value, number]).outputs[0]
        behind.shape, behind.type = value.shape, value.type
        product.replace_input_with(index, behind)
        rewriter.bypass(node, source)
        is_changed = True
    return is_changed


def _scaled_before_views(value: ir.Value) -> tuple[ir.Node, ir.Value, float] | None:
    """Return the node that multiplies what a value is a view of, what it multiplies, and by what number."""
    node, num_views = value.producer(), 0
    while node is not None and is_view(node) and has_one_reader(node.outputs[0]):
        source = node.inputs[0]
        node = source.producer() if source is not None else None
        num_views += 1
    scaled = scalar_factor(node) if node is not None and num_views else None
    if node is None or scaled is None or not has_one_reader(node.outputs[0]):
        return None
    is_float = scaled[0].dtype is ir.DataType.FLOAT
    return (node, *scaled) if is_float else None


fuse_attention = attention_fusion()
"""The pass for frameworks that have attention of any values, with any mask."""

fuse_heads = attention_fusion(heads_only=True)
"""The pass for nets that are compared, which keep their dense layers."""


def attention_forms(graph: Graph) -> list[tuple[tuple[str, ...], tuple[bool, ...], bytes]]:
    """Return the operators of each core of attention, what of it is scaled, and the numbers of its mask.

    Queries, keys and their product may be scaled. A mask that inputs decide has no numbers.
    """
    cores = [scores_around(node) for node in graph.nodes if node.op_type == "Softmax" and not node.domain]
    masks = Masks(graph)
    forms = []
    for core in cores:
        if core is not None:
            mask = stored(_settled(core, masks).mask)
            heads = heads_of(core, OpenSizes())
            far = [] if heads is None else [heads.query[-1], heads.key[-1]]
            is_scaled = tuple(factor != 1 for factor in (core.factor, *(view.factor for view in far)))
            operators = tuple(node.op_type for node in core.nodes)
            forms.append((operators, is_scaled, b"" if mask is None else mask.tobytes()))
    return forms


def _settled(scores: Scores, masks: Masks) -> Scores:
    """Return the core of attention with its mask as numbers, if it is one for all."""
    mask = stored(scores.mask)
    if mask is None and isinstance(scores.mask, ir.Value):
        mask = masks.numbers(scores.mask)
    if mask is None or (mask.ndim == 4 and (mask != mask[:1]).any()):
        return scores
    if not mask.any():
        return replace(scores, mask=None)
    mask = mask[:1] if mask.ndim == 4 else mask
    is_open = isinstance(scores.mask, ir.Value) and scores.mask.const_value is None
    return scores if is_open and not has_causal_form(mask) else replace(scores, mask=mask)


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
        fused = _of_heads(rewriter, scores, heads)
    if fused is None:
        return False
    masks: list[ir.Value] = []
    if isinstance(scores.mask, ir.Value):
        masks = [scores.mask] if is_masked else []
    elif scores.mask is not None and is_masked:
        numbers = scores.mask
        if extent.heads_only:  # the lowest number of a type and minus infinity take out alike
            numbers = np.where(numbers <= NEVER, -np.inf, numbers).astype(numbers.dtype)
        masks = [rewriter.initializer(ir.Tensor(numbers), f"{fused.result.name}/mask")]
    settings = {**fused.settings, "is_causal": 1 if is_causal else None, "softcap": scores.cap or None}
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


def _of_heads(rewriter: Rewriter, scores: Scores, heads: Heads) -> _Fused | None:
    """Return attention of values with an axis for the heads; keys (N, H, D, S) are turned first."""
    views, sources = [], []
    for each in heads.all:
        plain = [view for view in each if view.is_whole]
        if not plain and not _is_turned(each[0]):
            return None
        views.append(plain[-1] if plain else each[0])
        sources.append(views[-1].source if plain else _turned(rewriter, scores.nodes[0], each[0].source))
    nodes = [*scores.nodes, *(node for view in views for node in view.nodes)]
    settings = {"scale": _scale(scores, views)}
    return _Fused("Attention", sources, settings, scores.nodes[-1].outputs[0], nodes)


def _is_turned(view: View) -> bool:
    """Return whether a view is an earlier value of four axes with the last two exchanged."""
    every = np.arange(view.elements.size)
    return len(view.sizes) == 4 and np.array_equal(view.elements.swapaxes(2, 3).reshape(-1), every)


def _turned(rewriter: Rewriter, before: ir.Node, value: ir.Value) -> ir.Value:
    """Return a value with its last two axes exchanged."""
    turned = rewriter.insert(before, "Transpose", [value], {"perm": [0, 1, 3, 2]}).outputs[0]
    turned.type = value.type
    return turned


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
