"""Windows and paddings: rounding, strides, explicit pads."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import ShapeError
from netweave.graph import (
    DOMAIN,
    attributes_of,
    gradient_factors,
    infer_shapes,
    known_shape,
    make_attributes,
    ties_of,
)
from netweave.graph.ops.pooling import PoolWindows, num_windows, standard_ceil_mode
from netweave.graph.passes.rewriting import Pass, Rewriter, prune
from netweave.graph.passes.views import OpenSizes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    import onnx_ir as ir

    from netweave.graph import Graph


_NOT_NEGATIVE = frozenset({"Relu", "Sigmoid", "Softplus", "Abs", "Exp", "Softmax"})
_KEEPS_SIGN = frozenset(
    {"Identity", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Dropout"}
)


@Pass
def absorb_pads(graph: Graph) -> None:
    """Make a Pad of zeros part of the pooling or convolution behind it.

    A maximum takes it only over values that are never negative, where a zero changes nothing; a mean only if
    it counts its padding. A Pad goes when nothing reads it any more.
    """
    for node in list(graph.nodes):
        if node.domain or node.op_type != "Pad":
            continue
        pads = _zeros_around(node)
        if pads is None or node.inputs[0] is None:
            continue
        for use in list(node.outputs[0].uses()):
            take = _TAKERS.get(use.node.op_type) if not use.node.domain and use.idx == 0 else None
            if take is not None and take(use.node, node.inputs[0]) and _add(use.node, pads):
                use.node.replace_input_with(0, node.inputs[0])
        if not node.outputs[0].uses() and not node.outputs[0].is_graph_output():
            graph.model.graph.remove(node, safe=True)


def _zeros_around(node: ir.Node) -> list[int] | None:
    """Return the zeros that a Pad puts around the spatial axes: all begins, then all ends."""
    rank = len(known_shape(node.inputs[0]) or ())
    stored = [None if value is None else value.const_value for value in node.inputs]
    if rank < 3 or len(stored) < 2 or stored[1] is None or (len(stored) > 3 and stored[3] is not None):
        return None
    value = stored[2] if len(stored) > 2 else None
    if node.attributes.get_string("mode", "constant") != "constant" or (
        value is not None and np.any(value.numpy())
    ):
        return None
    numbers = [int(number) for number in stored[1].numpy()]
    begins, ends = numbers[:rank], numbers[rank:]
    if any(begins[:2]) or any(ends[:2]) or min(numbers) < 0:
        return None
    return begins[2:] + ends[2:]


def _add(node: ir.Node, pads: list[int]) -> bool:
    """Add to the padding of a convolution or pooling, unless its own is a rule."""
    attributes = attributes_of(node)
    own = attributes.get("pads") or [0] * len(pads)
    if attributes.get("auto_pad", "NOTSET") not in {"NOTSET", "VALID"}:
        return False
    total = [a + b for a, b in zip(own, pads, strict=True)]
    if node.op_type != "Conv":
        windows = PoolWindows.of(node.domain, attributes)
        outside = any(pad >= size for pad, size in zip(total, 2 * windows.kernel, strict=True))
        if outside or windows.rounding != "floor":
            return False
    node.attributes.pop("auto_pad", None)
    node.attributes.update({made.name: made for made in make_attributes({"pads": total})})
    return True


def is_never_negative(value: ir.Value | None) -> bool:
    """Return whether an activation on the way to a value lets nothing below 0 through."""
    while value is not None:
        node = value.producer()
        if node is None or node.domain:
            return False
        if node.op_type in _NOT_NEGATIVE:
            return True
        if node.op_type == "Clip":
            low = node.inputs[1] if len(node.inputs) > 1 else None
            return low is not None and low.const_value is not None and bool(low.const_value.numpy() >= 0)
        value = node.inputs[0] if node.op_type in _KEEPS_SIGN else None
    return False


def _max_pool(node: ir.Node, source: ir.Value) -> bool:
    own = attributes_of(node).get("pads") or [0]
    return len(node.outputs) == 1 and not any(own) and is_never_negative(source)


def _average_pool(node: ir.Node, source: ir.Value) -> bool:
    """A mean without padding of its own may count the zeros as one that includes its padding."""
    attributes = attributes_of(node)
    if not attributes.get("count_include_pad", 0):
        if any(attributes.get("pads") or [0]):
            return False
        node.attributes.update({made.name: made for made in make_attributes({"count_include_pad": 1})})
    return True


_TAKERS: dict[str, Callable[[ir.Node, ir.Value], bool]] = {
    "AveragePool": _average_pool,
    "Conv": lambda node, source: True,
    "MaxPool": _max_pool,
}
"""Operators that may take zeros around what they read, given themselves and what was padded."""


@Pass
def pad_rounded_windows(graph: Graph) -> None:
    """Replace ``ceil_mode`` by the end padding that gives the same windows, where the sizes are known.

    Runtimes differ in which last window ``ceil_mode`` drops; with padding alone there is nothing to drop. A
    maximum never takes its padding, and a mean that does not count it divides by the same numbers as before;
    one that counts it stays, since it divides by padding but not by what goes on beyond.
    """
    for node in graph.nodes:
        if node.domain or node.op_type not in {"AveragePool", "MaxPool"}:
            continue
        pads = _pads(node)
        if pads is not None:
            node.attributes.pop("ceil_mode", None)
            node.attributes.update({made.name: made for made in make_attributes({"pads": pads})})


def _pads(node: ir.Node) -> list[int] | None:
    """Return the padding of a pooling that rounds up: all begins, then all ends."""
    attributes = attributes_of(node)
    shape = known_shape(node.inputs[0])
    windows = PoolWindows.of(node.domain, attributes)
    is_rule = attributes.get("auto_pad", "NOTSET") != "NOTSET"
    if windows.rounding != "ceil" or is_rule or windows.counts_padding or shape is None:
        return None
    sizes = [size for size in shape[2:] if size is not None]
    if len(sizes) != len(windows.kernel):
        return None
    return windows.begin + [max(end, 0) for end in windows.covering_end(sizes)]


# Both orders give the same values and the same gradients: a window's maximum is above zero at the same
# place, and where it is not, no gradient passes. Rectifying the pooled value touches a quarter of the
# memory for windows of 2 x 2, and backward then reads the pooled value, not the large one, which need not
# be kept.

STANDARD = {"", "ai.onnx"}


def rectified_pools(graph: Graph, wanted: Collection[ir.Value]) -> dict[ir.Node, ir.Node]:
    """Return the max poolings that can be computed before the Relu in front of them, with that Relu.

    Args:
        graph: The graph.
        wanted: Values that must be there by themselves.
    """
    pairs = {}
    for pool in graph.nodes:
        relu = _rectifier(pool, wanted)
        if relu is None or ties_of(pool):  # its backward reads what a Relu would write over
            continue
        if not gradient_factors(pool) and not gradient_factors(relu):
            pairs[pool] = relu
    return pairs


def _rectifier(pool: ir.Node, wanted: Collection[ir.Value]) -> ir.Node | None:
    """Return the Relu whose only reader a max pooling is."""
    if pool.op_type != "MaxPool" or pool.domain not in {*STANDARD, DOMAIN} or len(pool.outputs) != 1:
        return None
    value = pool.inputs[0]
    relu = value.producer() if value is not None else None
    if value is None or relu is None or relu.op_type != "Relu" or relu.domain not in STANDARD:
        return None
    return relu if len(value.uses()) == 1 and value not in wanted and _reads_all(pool, value) else None


def _reads_all(pool: ir.Node, value: ir.Value) -> bool:
    """Return whether each window holds an element of the image.

    An empty window gives the lowest number, which a rectifier before the pooling would not have changed.
    """
    attributes, shape = attributes_of(pool), known_shape(value)
    windows = PoolWindows.of(pool.domain, attributes)
    if any(dilation != 1 for dilation in windows.dilations):
        return False
    if attributes.get("auto_pad", "NOTSET") != "NOTSET":
        return True  # VALID has no padding, and SAME never as much as a window
    if shape is None or not all(isinstance(size, int) for size in shape[2:]):
        return False
    sizes = [int(size or 0) for size in shape[2:]]
    return all(
        begin < span and (count - 1) * stride - begin < size
        for begin, span, stride, size, count in zip(
            windows.begin, windows.spans, windows.strides, sizes, windows.counts(sizes), strict=True
        )
    )


# PyTorch keeps images with channels last in memory and writes ``as_strided`` where it makes the order of
# memory explicit: all elements in one row, and a table of their numbers to take them by.

_STEPS = {"Add": np.add, "Mul": np.multiply}


def take_strided(rewriter: Rewriter, node: ir.Node) -> None:
    """Remove a Gather from all elements of a value in one row that gives the value as it was."""
    row = node.inputs[0].producer() if node.inputs[0] is not None else None
    if row is None or row.domain or row.op_type != "Reshape" or attributes_of(node).get("axis", 0):
        return
    value, table = row.inputs[0], node.inputs[1]
    if value is None or table is None or value.shape is None or value.shape != node.outputs[0].shape:
        return
    sizes = OpenSizes()
    shape = sizes.shape(value)
    numbers = _numbers(table, sizes)
    if shape is None or numbers is None or numbers.shape != shape or len(row.outputs[0].shape or ()) != 1:
        return
    if np.array_equal(numbers, np.arange(numbers.size).reshape(shape)):
        rewriter.bypass(node, value)


def _numbers(value: ir.Value, sizes: OpenSizes) -> np.ndarray | None:
    """Return a table of whole numbers that is computed from sizes alone; None for other values."""
    if value.const_value is not None:
        return value.const_value.numpy()
    node = value.producer()
    if node is None or node.domain or node.inputs[0] is None:
        return None
    if node.op_type == "Range":
        start, step = (_stored(node, at) for at in (0, 2))
        shape = sizes.shape(value)
        return None if start is None or step is None or shape is None else start + step * np.arange(shape[0])
    if node.op_type == "Unsqueeze":
        inner, axes = _numbers(node.inputs[0], sizes), _stored(node, 1)
        return None if inner is None or axes is None else np.expand_dims(inner, tuple(map(int, axes)))
    step_of = _STEPS.get(node.op_type)
    operands = [_numbers(each, sizes) for each in node.inputs if each is not None] if step_of else []
    known = [operand for operand in operands if operand is not None]
    return np.asarray(step_of(*known)) if step_of is not None and len(known) == 2 else None


def _stored(node: ir.Node, at: int) -> np.ndarray | None:
    value = node.inputs[at]
    return None if value is None or value.const_value is None else value.const_value.numpy()


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


@dataclass(frozen=True, slots=True)
class WindowPart:
    """The part of its image that a convolution or pooling reads for a part of its output.

    Attributes:
        reads: First element along each axis, and the one after the last.
        attributes: Its own then: no padding but at the image's own edges, so that every window is as before.
        num_windows: Windows that it then has along each axis; rounding up may add one at the end.
    """

    reads: tuple[tuple[int, int], ...]
    attributes: Mapping[str, Any]
    num_windows: tuple[int, ...]


def part_of_windows(node: ir.Node, parts: Sequence[tuple[int, int]]) -> WindowPart | None:
    """Return what a convolution or pooling reads for a part of its output.

    Args:
        node: A Conv, MaxPool or AveragePool, ONNX's or our own, of known sizes.
        parts: First element of the output along each axis of the image, and the one after the last.

    Returns:
        None where sizes are unknown, or no window of the part fits into what is there of the image.
    """
    attributes, sizes = attributes_of(node), _spatial(node.inputs[0])
    kernel = _kernel(node, attributes)
    if sizes is None or kernel is None or len(sizes) != len(parts):
        return None
    num_axes = len(parts)
    strides, dilations = (list(attributes.get(name) or [1] * num_axes) for name in ("strides", "dilations"))
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = list(attributes.get("pads") or [0] * (2 * num_axes))
    rule = attributes.get("auto_pad", "NOTSET")
    if rule in _SAME:
        upper = rule == "SAME_UPPER"
        pads = same_pads(sizes, kernel, strides=strides, dilations=dilations, upper=upper)
    reads, begins, ends = [], [], []
    for axis, (first, last) in enumerate(parts):
        begin = first * strides[axis] - pads[axis]
        end = (last - 1) * strides[axis] - pads[axis] + extents[axis]
        read = (max(begin, 0), min(end, sizes[axis]))
        if read[0] >= read[1]:
            return None
        over = end - read[1]
        if node.op_type == "AveragePool":
            over = min(over, pads[num_axes + axis])  # what lies beyond the padding never counts
        if read[0] - begin + read[1] - read[0] + over < extents[axis]:
            return None
        reads.append(read)
        begins.append(read[0] - begin)
        ends.append(over)
    changed = {**attributes, "pads": [*begins, *ends]}
    changed.pop("auto_pad", None)
    rounding = attributes.get("rounding") or ("ceil" if attributes.get("ceil_mode") else "floor")
    counts = [
        num_windows(
            stop - start,
            extents[axis],
            stride=strides[axis],
            pads=(begins[axis], ends[axis]),
            rounding=rounding,
            any_pad=any(changed["pads"]),
        )
        for axis, (start, stop) in enumerate(reads)
    ]
    return WindowPart(tuple(reads), changed, tuple(counts))


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


GLOBAL = {"AveragePool": "GlobalAveragePool", "MaxPool": "GlobalMaxPool"}
REDUCTIONS = frozenset({"ReduceMean", "ReduceMax"})


@Pass
def pool_whole_images(graph: Graph) -> None:
    """Make poolings global that take one window of all of their image, at the sizes that the net declares.

    A net with open sizes stays as it is.
    """
    pools = [node for node in graph.nodes if node.op_type in GLOBAL]
    sizes = _declared(graph)
    if sizes is None or not pools:
        return
    if not _is_at(graph, pools, sizes):
        try:
            pools = [node for node in specialise(graph, sizes).nodes if node.op_type in GLOBAL]
        except ShapeError:  # the declared sizes do not fit, which running the net says better
            return
    whole = {node.name for node in pools if _covers_its_image(node)}
    for node in graph.nodes:
        if node.name in whole:
            node.op_type, node.domain = GLOBAL[node.op_type], ""
            node.attributes.clear()


def _is_at(graph: Graph, pools: Sequence[ir.Node], sizes: Mapping[str, tuple[int, ...]]) -> bool:
    """Return whether the shapes of a graph are those at some sizes, the batch aside, as far as poolings show.

    To infer the shapes of thousands of nodes once more takes as long as to compare them.
    """
    if any((known_shape(value) or ())[1:] != sizes[str(value.name)][1:] for value in graph.inputs):
        return False
    shapes = [known_shape(node.inputs[0]) for node in pools]
    # ``specialise`` makes plain attributes of a rule (SAME, rounding up), which only then can be judged
    has_rule = any(node.domain or node.attributes.get("auto_pad") is not None for node in pools)
    return not has_rule and all(shape is not None and None not in shape[1:] for shape in shapes)


def num_global_pools(graph: Graph) -> int:
    """Return how many poolings of a graph are global, whatever the size of the image."""
    return sum(_is_global(node) for node in graph.nodes)


def _is_global(node: ir.Node) -> bool:
    if node.domain:
        return False
    if node.op_type not in REDUCTIONS:
        return node.op_type in GLOBAL.values()
    axes = attributes_of(node).get("axes")
    if axes is None and len(node.inputs) > 1 and node.inputs[1] is not None:
        stored = node.inputs[1].const_value
        axes = None if stored is None else stored.numpy().tolist()
    return sorted(axes or ()) in ([2, 3], [-2, -1])


def _declared(graph: Graph) -> dict[str, tuple[int, ...]] | None:
    """Return the sizes of a net's inputs with a batch of one; None if some are open."""
    sizes: dict[str, tuple[int, ...]] = {}
    for value in graph.inputs:
        name = str(value.name)
        known = tuple(graph.declared.get(name) or known_shape(value) or ())
        filled = [size for size in known[1:] if size]
        if not known or len(filled) != len(known) - 1:
            return None
        sizes[name] = (known[0] or 1, *filled)
    return sizes


def _covers_its_image(node: ir.Node) -> bool:
    """Return whether a pooling's window is exactly the image that it reads."""
    shape = known_shape(node.inputs[0]) if node.op_type in GLOBAL and node.inputs else None
    if shape is None or len(shape) < 3:
        return False
    windows = PoolWindows.of(node.domain, attributes_of(node))
    is_whole = windows.spans == windows.kernel == list(shape[2:])
    return is_whole and not windows.any_pad and prod(windows.kernel) > 1


# JAX has sums over windows alone: a mean without the padding is a sum divided by the sum of as many ones.


@Pass
def join_counted_means(graph: Graph) -> None:
    """Make one AveragePool of a sum over windows that is divided by the number of elements in each."""
    rewriter, is_changed = Rewriter(graph), False
    for node in list(graph.nodes):
        if node.domain or node.op_type != "Div":
            continue
        total, count = (_sum_over_windows(value) for value in node.inputs)
        if total is None or not (_counts_elements(total, node.inputs[1]) or _is_sum_of_ones(total, count)):
            continue
        settings = attributes_of(total.pool) | {"count_include_pad": 0}
        mean = rewriter.insert(node, "AveragePool", [total.pool.inputs[0]], settings).outputs[0]
        if total.perm != tuple(range(len(total.perm))):
            mean = rewriter.insert(node, "Transpose", [mean], {"perm": list(total.perm)}).outputs[0]
        rewriter.take_over(node.outputs[0], mean)
        is_changed = True
    if is_changed:
        prune.edit(graph)
        infer_shapes(graph)


@dataclass(frozen=True, slots=True)
class _WindowSum:
    """A mean over windows with their padding, times the elements of a window, with its axes in some order."""

    pool: ir.Node
    perm: tuple[int, ...]


def _sum_over_windows(value: ir.Value | None) -> _WindowSum | None:
    node, perm = value.producer() if value is not None else None, tuple[int, ...]()
    while node is not None and node.op_type == "Transpose":
        own = tuple(attributes_of(node)["perm"])
        perm = tuple(own[axis] for axis in perm) if perm else own
        node = node.inputs[0].producer() if node.inputs[0] is not None else None
    if node is None or node.op_type != "Mul" or node.inputs[0] is None or node.inputs[1] is None:
        return None
    pool, factor = node.inputs[0].producer(), node.inputs[1].const_value
    if pool is None or (pool.domain, pool.op_type) != ("", "AveragePool") or factor is None:
        return None
    windows = PoolWindows.of("", attributes_of(pool))
    if not windows.counts_padding or factor.size != 1 or factor.numpy().item() != prod(windows.kernel):
        return None
    return _WindowSum(pool, perm or tuple(range(len(windows.kernel) + 2)))


def _counts_elements(total: _WindowSum, divisor: ir.Value | None) -> bool:
    """Return whether a stored divisor is the number of elements of each window that are no padding."""
    stored = divisor.const_value if divisor is not None else None
    sizes = known_shape(total.pool.inputs[0])
    made = known_shape(total.pool.outputs[0])
    if stored is None or sizes is None or made is None or stored.size > MAX_COUNTED:
        return False
    if not all(isinstance(size, int) for size in (*sizes[2:], *made[2:])):
        return False
    windows = PoolWindows.of("", attributes_of(total.pool))
    counts = np.ones((1, 1), np.float32)
    for axis, (size, number) in enumerate(zip(sizes[2:], made[2:], strict=True)):
        begins = np.arange(int(number or 0)) * windows.strides[axis] - windows.begin[axis]
        places = begins[:, None] + np.arange(windows.kernel[axis]) * windows.dilations[axis]
        counts = counts[..., None] * ((places >= 0) & (places < int(size or 0))).sum(1)
    array = stored.numpy()
    array = array.reshape((1,) * (len(total.perm) - array.ndim) + array.shape)
    array = array.transpose(np.argsort(total.perm))
    is_alike = all(one in (1, number) for one, number in zip(array.shape[2:], made[2:], strict=True))
    return is_alike and bool((array == counts).all())


MAX_COUNTED = 1 << 24
"""Larger divisors are not looked at."""


def _is_sum_of_ones(total: _WindowSum, count: _WindowSum | None) -> bool:
    """Return whether a sum runs over ones, by the windows of another one."""
    if count is None or count.perm != total.perm or attributes_of(count.pool) != attributes_of(total.pool):
        return False
    sizes = [known_shape(each.pool.inputs[0]) for each in (total, count)]
    if sizes[0] is None or sizes[1] is None or sizes[0][2:] != sizes[1][2:]:
        return False
    value = count.pool.inputs[0]
    while value is not None and (node := value.producer()) is not None and node.op_type in _REPEATING:
        value = node.inputs[0]
    stored = value.const_value if value is not None else None
    return stored is not None and bool((stored.numpy() == 1).all())


_REPEATING = frozenset({"Expand", "Identity", "Reshape", "Transpose", "Unsqueeze"})
