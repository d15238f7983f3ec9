"""Operators that frameworks take apart, put together again.

- Local response normalisation: PyTorch and those who have no such operator write
  ``x / (k + alpha * mean(x * x)) ** beta`` with a pooling for the mean: over the channels, turned into an
  axis that can be pooled, or over a square within each channel.
- Padding of zeros before a convolution, as ports write it whose framework pads both ends alike.
- A rectifier with learned slopes (``slopes``).
- Softplus with the threshold above which PyTorch returns the input itself.
- Mish, which exporters before opset 18 and ONNX Runtime's optimiser write in parts.
- ArgMax and ArgMin, for which OpenVINO takes TopK of one element.
- Layer normalisation with scale and shift, which OpenVINO has as operators behind it.
- A reciprocal as the quotient of 1.
- Softmax, which JAX and people write as a quotient of exponentials less their largest.
- A mean, which JAX writes as a sum divided by a number.
- A product of matrices that is written as an Einsum.
- Group normalisation before opset 21: an instance normalisation of the groups between two reshapes.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import onnx_ir as ir

from netweave.graph import DOMAIN, attributes_of, known_shape, layer_keys, set_layer_keys
from netweave.graph.ops.pooling import PoolWindows
from netweave.graph.parameters import source_keys, tag_sources
from netweave.graph.passes.decomposition import join_slopes
from netweave.graph.passes.rewriting import Pass, Rewriter, has_one_reader, prune

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from netweave.graph import Graph

LINEAR_SOFTPLUS = 17.0
"""From here on ``log(1 + exp(x))`` is ``x`` in float32: ``exp(-x)`` is below its rounding."""

_VIEWS = frozenset({"Identity", "Reshape", "Squeeze", "Unsqueeze"})


@Pass
def compose(graph: Graph) -> None:
    """Make one LRN, ChannelLRN, Conv, PRelu or MatMul of what computes it; it is in all their layers."""
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        if node.graph is None or node.domain:  # another one has taken it
            continue
        if rule := _RULES.get(node.op_type):
            rule(rewriter, node)
        if node.graph is None:
            continue
        normalisation = _normalisation(node) if node.op_type in {"Div", "Mul"} else None
        if normalisation is not None:
            rewriter.replace(
                [*normalisation.nodes, node],
                normalisation.op_type,
                [normalisation.x],
                normalisation.settings,
                domain=normalisation.domain,
            )


def _take_padding(rewriter: Rewriter, conv: ir.Node) -> None:
    """Give a convolution the zeros that a Pad before it adds."""
    walk = _Walk(conv.inputs[0]) if conv.inputs[0] is not None else None
    pad = walk.node("Pad") if walk is not None else None
    added = _added(pad) if pad is not None else None
    attributes = attributes_of(conv)
    if pad is None or added is None or attributes.get("auto_pad", "NOTSET") != "NOTSET":
        return
    pads = [a + b for a, b in zip(added, attributes.get("pads", [0] * len(added)), strict=True)]
    if min(pads) < 0:
        return
    keys = [*layer_keys(conv), *layer_keys(pad)]
    new = rewriter.replace(
        [pad, conv], "Conv", [pad.inputs[0], *conv.inputs[1:]], {**attributes, "pads": pads}
    )
    set_layer_keys(new, keys)


def _take_product(rewriter: Rewriter, einsum: ir.Node) -> None:
    """Put a MatMul between transposes in the place of an Einsum that sums over one axis of two matrices.

    The queries of attention may have one axis more than the keys, behind that of the groups. The keys get
    one of size 1 there.
    """
    equation = str(attributes_of(einsum).get("equation", "")).replace(" ", "")
    read, arrow, out = equation.partition("->")
    terms, inputs = read.split(","), list(einsum.inputs)
    letters = [set(term) for term in (*terms, out)]
    is_plain = arrow and len(terms) == 2 and read.replace(",", "").isalpha()
    if not is_plain or any(map(operator.ne, map(len, letters), map(len, (*terms, out)))):
        return
    turn = _only_turn(einsum.outputs[0])
    perm = (attributes_of(turn).get("perm") if turn is not None else None) or range(len(out))[::-1]
    turned = out if turn is None else "".join(out[axis] for axis in perm)
    if _is_second_first(letters[0], letters[1], turned):
        terms, inputs, letters[:2] = terms[::-1], inputs[::-1], letters[1::-1]
    a, b, made = letters
    if len(a - b) > 1:
        out = turned
    batch = "".join(letter for letter in out if letter in a & b)
    summed, columns = ("".join(sorted(each)) for each in (a & b - made, b - a))
    rows, grouped = _rows_and_groups(terms[0], out, batch, a - b)
    if len(summed) != 1 or len(rows) != 1 or len(columns) != 1 or (a ^ b) - made:
        return
    wanted = batch + grouped + rows + summed, batch + summed + columns, batch + grouped + rows + columns
    inputs = [
        _transposed(rewriter, einsum, value, [term.index(letter) for letter in order])
        for value, term, order in zip(inputs, terms, wanted, strict=False)
    ]
    if grouped:
        inputs[1] = _with_axis(rewriter, einsum, inputs[1], len(batch))
    product = rewriter.insert(einsum, "MatMul", inputs).outputs[0]
    last = turn if turn is not None and grouped else einsum
    result = last.outputs[0]
    product.type = result.type
    if result.shape is not None:
        product.shape = ir.Shape([result.shape[out.index(letter)] for letter in wanted[2]])
    made_of = _transposed(rewriter, einsum, product, [wanted[2].index(letter) for letter in out])
    if made_of is not None:
        rewriter.take_over(result, made_of)
        for node in dict.fromkeys((last, einsum)):
            rewriter.graph.model.graph.remove(node, safe=True)


def _is_second_first(first: set[str], second: set[str], out: str) -> bool:
    """Return whether the rows of a product are those of the second factor: they stand first in the result."""
    rows, columns = first - second, second - first
    if len(rows) == len(columns) == 1 and rows | columns <= {*out}:
        return out.index("".join(columns)) < out.index("".join(rows))
    return len(columns) > 1


def _only_turn(value: ir.Value) -> ir.Node | None:
    """Return the transpose that alone reads a value."""
    uses = list(value.uses())
    is_turned = len(uses) == 1 and not value.is_graph_output() and _is_plain(uses[0].node, "Transpose")
    return uses[0].node if is_turned else None


def _rows_and_groups(term: str, out: str, batch: str, own: set[str]) -> tuple[str, str]:
    """Return the axis of a matrix' rows, and one that stands behind the same axis of the batch all along."""
    if len(own) != 2 or not own.issubset(out):
        return "".join(own), ""

    def before(text: str, letter: str) -> str:
        return text[: text.index(letter)][-1:]

    behind = [each for each in sorted(own) if before(term, each) == before(out, each) in list(batch)]
    return ("".join(own - {*behind}), behind[0]) if len(behind) == 1 else ("".join(own), "")


def _with_axis(rewriter: Rewriter, before: ir.Node, value: ir.Value | None, axis: int) -> ir.Value:
    """Return a value with one more axis, of size 1."""
    place = rewriter.initializer(ir.Tensor(np.array([axis])), f"{before.name}/axis")
    spread = rewriter.insert(before, "Unsqueeze", [value, place]).outputs[0]
    if value is not None:
        spread.type = value.type
        shape = list(value.shape) if value.shape is not None else None
        spread.shape = ir.Shape([*shape[:axis], 1, *shape[axis:]]) if shape is not None else None
    return spread


def _transposed(
    rewriter: Rewriter, before: ir.Node, value: ir.Value | None, perm: Sequence[int]
) -> ir.Value | None:
    if list(perm) == list(range(len(perm))):
        return value
    turned = rewriter.insert(before, "Transpose", [value], {"perm": list(perm)}).outputs[0]
    turned.type = value.type if value is not None else None
    if value is not None and value.shape is not None:
        turned.shape = ir.Shape([value.shape[axis] for axis in perm])
    return turned


def _take_threshold(rewriter: Rewriter, choice: ir.Node) -> None:
    """Remove the choice of a softplus's input above a threshold at which both are the same number."""
    condition, x, soft = choice.inputs
    test, softplus = (None if value is None else value.producer() for value in (condition, soft))
    if test is None or softplus is None or x is None or soft is None:
        return
    is_softplus = (test.op_type, softplus.op_type) == ("Greater", "Softplus") and softplus.inputs[0] is x
    threshold = _number(test.inputs[1]) if is_softplus and test.inputs[0] is x else None
    if threshold is not None and threshold >= LINEAR_SOFTPLUS:
        rewriter.bypass(choice, soft)


def _take_choice(rewriter: Rewriter, top: ir.Node) -> None:
    """Write as ArgMax or ArgMin what only gives the place of one element."""
    x, (values, places) = top.inputs[0], top.outputs
    if x is None or _number(top.inputs[1]) != 1 or values.uses() or values.is_graph_output():
        return
    op_type = "ArgMax" if top.attributes.get_int("largest", 1) else "ArgMin"
    choice = rewriter.insert(top, op_type, [x], {"axis": top.attributes.get_int("axis", -1), "keepdims": 1})
    rewriter.take_over(places, choice.outputs[0])
    rewriter.graph.model.graph.remove(top, safe=True)


def _take_mish(rewriter: Rewriter, product: ir.Node) -> None:
    """Write as Mish what is multiplied by the hyperbolic tangent of its softplus."""
    for x, factor in zip(product.inputs, product.inputs[::-1], strict=True):
        nodes = [product]
        for op_type in ("Tanh", "Softplus"):
            maker = factor.producer() if factor is not None and has_one_reader(factor) else None
            if maker is None or maker.domain or maker.op_type != op_type:
                break
            nodes.insert(0, maker)
            factor = maker.inputs[0]
        if len(nodes) == 3 and factor is x:
            rewriter.replace(nodes, "Mish", [x], {})
            return


def _take_reciprocal(rewriter: Rewriter, quotient: ir.Node) -> None:
    """Write a quotient of 1 as a reciprocal."""
    dividend, divisor = quotient.inputs
    shapes = known_shape(divisor), known_shape(quotient.outputs[0])
    is_float = divisor is not None and divisor.dtype is not None and divisor.dtype.is_floating_point()
    if is_float and _number(dividend) == 1 and shapes[0] is not None and shapes[0] == shapes[1]:
        rewriter.replace([quotient], "Reciprocal", [divisor], {})


def _take_quotient(rewriter: Rewriter, quotient: ir.Node) -> None:
    for take in (_take_reciprocal, _take_mean, _take_softmax):
        if quotient.graph is not None:
            take(rewriter, quotient)


def _take_mean(rewriter: Rewriter, quotient: ir.Node) -> None:
    """Write a sum over some axes, divided by the number of its terms, as a mean."""
    dividend, count = quotient.inputs[0], _number(quotient.inputs[1])
    if dividend is None or count is None:
        return
    walk = _Walk(dividend)
    list(walk.over_views())
    total = walk.node("ReduceSum")
    axes, shape = (_axes(total), known_shape(total.inputs[0])) if total is not None else (None, None)
    if total is None or not axes or shape is None:
        return
    summed = {axis % len(shape) for axis in axes}
    sizes = [size for axis, size in enumerate(shape) if axis in summed and size is not None]
    kept = tuple(1 if axis in summed else size for axis, size in enumerate(shape))
    dropped = tuple(size for axis, size in enumerate(shape) if axis not in summed)
    made = known_shape(quotient.outputs[0])
    is_plain = made == kept or (made == dropped and not walk.nodes)
    if is_plain and len(sizes) == len(summed) and np.prod(sizes) == count:
        settings = {"keepdims": int(made == kept)}
        rewriter.replace([total, *walk.nodes, quotient], "ReduceMean", list(total.inputs), settings)


def _take_softmax(rewriter: Rewriter, quotient: ir.Node) -> None:
    """Write ``exp(x - max(x)) / sum(exp(x - max(x)))`` along one axis as a Softmax."""
    dividend, divisor = quotient.inputs
    exponential = dividend.producer() if dividend is not None else None
    shifted = exponential.inputs[0] if _is_plain(exponential, "Exp") else None
    shift = shifted.producer() if shifted is not None else None
    if dividend is None or divisor is None or exponential is None or shifted is None:
        return
    x, offset = shift.inputs if _is_plain(shift, "Sub") else (None, None)
    if x is None or offset is None or shift is None:
        return
    walk = _Walk(divisor)
    list(walk.over_views())
    total = walk.node("ReduceSum")
    if total is None or total.inputs[0] is not dividend or len(dividend.uses()) != 2:
        return
    highest = _Walk(offset)
    list(highest.over_views())
    is_free = highest.over_number("Max", -np.inf) == -np.inf  # JAX lets an empty row have one
    list(highest.over_views())
    most = highest.node("ReduceMax")
    axes = _axes(total), _axes(most) if most is not None else None
    shape = known_shape(x)
    if most is None or not is_free or most.inputs[0] is not x or shape is None or axes[0] is None:
        return
    axis, *others = (axis % len(shape) for axis in axes[0])
    reduced = tuple(1 if place == axis else size for place, size in enumerate(shape))
    if others or axes[0] != axes[1] or any(known_shape(each) != reduced for each in (offset, divisor)):
        return
    if has_one_reader(shifted) and not dividend.is_graph_output():
        nodes = [most, *highest.nodes, shift, exponential, total, *walk.nodes, quotient]
        rewriter.replace(nodes, "Softmax", [x], {"axis": axis})


def _is_plain(node: ir.Node | None, op_type: str) -> TypeGuard[ir.Node]:
    return node is not None and not node.domain and node.op_type == op_type


def _axes(reduction: ir.Node) -> list[int] | None:
    axes = _second(reduction)
    return None if axes is None or axes.const_value is None else axes.const_value.numpy().tolist()


def _take_scale_and_shift(rewriter: Rewriter, norm: ir.Node) -> None:
    """Give a layer normalisation without scale and shift those that a Mul and an Add behind it hold."""
    ones = norm.inputs[1].const_value if norm.inputs[1] is not None else None
    has_shift = len(norm.inputs) > 2 and norm.inputs[2] is not None
    if ones is None or has_shift or (ones.numpy() != 1).any():
        return
    nodes = [norm]
    arrays: dict[str, ir.Value | None] = {"Mul": norm.inputs[1], "Add": None}
    for op_type in arrays:
        made = nodes[-1].outputs[0]
        reader = next(node for node, _ in made.uses()) if has_one_reader(made) else None
        if reader is None or reader.op_type != op_type or reader.domain:
            continue
        stored = _with_stored(reader)[1]
        array = _with_sizes(rewriter, stored, ones.shape.numpy()) if stored is not None else None
        if array is None:
            return
        arrays[op_type] = array
        nodes.append(reader)
    if len(nodes) > 1:
        inputs = [norm.inputs[0], *arrays.values()]
        rewriter.replace(nodes, "LayerNormalization", inputs, attributes_of(norm))


def _with_sizes(rewriter: Rewriter, stored: ir.Value, sizes: Sequence[int]) -> ir.Value | None:
    """Return a stored array without leading axes of size 1; None if other sizes are left."""
    tensor = stored.const_value
    own = tuple(tensor.shape.numpy()) if tensor is not None else ()
    num_leading = len(own) - len(sizes)
    if tensor is None or num_leading < 0 or own != (*[1] * num_leading, *sizes):
        return None
    if not num_leading:
        return stored
    flat = rewriter.computed(
        lambda: tensor.numpy().reshape(sizes), name=f"{stored.name}/flat", like=tensor, shape=tuple(sizes)
    )
    tag_sources(flat, source_keys(stored))
    return flat


_RULES: dict[str, Callable[[Rewriter, ir.Node], object]] = {
    "Add": join_slopes,
    "Conv": _take_padding,
    "Div": _take_quotient,
    "Einsum": _take_product,
    "LayerNormalization": _take_scale_and_shift,
    "Mul": _take_mish,
    "TopK": _take_choice,
    "Where": _take_threshold,
}
"""Functions that compose an operator with those around it; to compose another one, add a row."""


@Pass
def compose_group_norm(graph: Graph) -> None:
    """Make one GroupNormalization of the nodes that exporters write for it before opset 21."""
    rewriter = Rewriter(graph)
    is_changed = False
    for node in list(graph.nodes):
        is_changed |= node.op_type == "Add" and not node.domain and _take_groups(rewriter, node)
    if is_changed:
        prune.edit(graph)


def _take_groups(rewriter: Rewriter, add: ir.Node) -> bool:
    """Put a GroupNormalization in the place of nodes that end in an addition; return whether they are one."""
    shifted, shift = _with_stored(add)
    mul = _Walk(shifted).node("Mul") if shifted is not None else None
    x, scale = _with_stored(mul) if mul is not None else (None, None)
    nodes = [add, mul]
    for op_type in ("Reshape", "InstanceNormalization", "Reshape"):
        nodes.append(_Walk(x).node(op_type) if x is not None else None)
        x = nodes[-1].inputs[0] if nodes[-1] is not None else None
    norm, result = nodes[3], add.outputs[0]
    if norm is None or x is None or x.shape is None or x.shape != result.shape:
        return False
    groups = norm.inputs[0].shape if norm.inputs[0] is not None else None
    ones, zeros = (None if value is None else value.const_value for value in norm.inputs[1:])
    if groups is None or len(groups) != 3 or groups[0] != x.shape[0] or ones is None or zeros is None:
        return False
    arrays = [_per_channel(rewriter, value, x.shape) for value in (scale, shift)]
    if any(array is None for array in arrays) or (ones.numpy() != 1).any() or zeros.numpy().any():
        return False
    settings = {"num_groups": ones.size, "epsilon": attributes_of(norm).get("epsilon", 1e-5)}
    covered = {node for node in nodes if node is not None}
    rewriter.fuse(covered, result, "GroupNormalization", [x, *arrays], settings)
    return True


def _with_stored(node: ir.Node) -> tuple[ir.Value | None, ir.Value | None]:
    """Return the computed operand of a node and the stored one; two of None if it has no such two."""
    for computed, stored in (tuple(node.inputs), tuple(reversed(node.inputs))):
        if stored is not None and stored.const_value is not None:
            return computed, stored
    return None, None


def _per_channel(rewriter: Rewriter, stored: ir.Value | None, shape: ir.Shape) -> ir.Value | None:
    """Return a stored array with one number for each channel and no other axis; None if it has others."""
    tensor = stored.const_value if stored is not None else None
    if stored is None or tensor is None or len(shape) < 3:
        return None
    upright = (shape[1], *[1] * (len(shape) - 2))
    if tuple(tensor.shape.numpy()) not in {upright, (1, *upright)}:
        return None
    flat = rewriter.computed(
        lambda: tensor.numpy().reshape(-1), name=f"{stored.name}/flat", like=tensor, shape=(tensor.size,)
    )
    tag_sources(flat, source_keys(stored))
    return flat


@dataclass(frozen=True, slots=True)
class _Normalisation:
    """A normalisation computed by several nodes.

    Attributes:
        x: What they read.
        nodes: The nodes in order, but for the last one.
        op_type: The operator.
        domain: Its domain.
        settings: Its attributes.
    """

    x: ir.Value
    nodes: list[ir.Node]
    op_type: str
    domain: str
    settings: Mapping[str, Any]


class _Walk:
    """Goes from a value towards the inputs, over nodes that nothing else reads."""

    def __init__(self, value: ir.Value) -> None:
        self.value = value
        self.nodes: list[ir.Node] = []

    def node(self, *op_types: str) -> ir.Node | None:
        """Return the node that makes the value, if it is of one of these types and has one reader."""
        node = self.value.producer()
        if node is None or node.domain or node.op_type not in op_types or not has_one_reader(self.value):
            return None
        return node

    def over(self, node: ir.Node, value: ir.Value) -> None:
        """Go on with an input of a node."""
        self.nodes.insert(0, node)
        self.value = value

    def over_views(self, *op_types: str) -> Iterator[ir.Node]:
        """Go over views and these, and yield them."""
        while (node := self.node(*_VIEWS, *op_types)) is not None and node.inputs[0] is not None:
            self.over(node, node.inputs[0])
            yield node

    def over_number(self, op_type: str, default: float) -> float | None:
        """Go over a node of a value and a number, and return the number; it may be missing."""
        node = self.node(op_type)
        if node is None:
            return default
        for number, other in (node.inputs, reversed(node.inputs)):
            divisor = _number(number)
            if divisor is not None and other is not None:
                self.over(node, other)
                return divisor
        return None


def _number(value: ir.Value | None) -> float | None:
    if value is None or value.const_value is None or value.const_value.size != 1:
        return None
    return float(value.const_value.numpy().reshape(()))


def _normalisation(last: ir.Node) -> _Normalisation | None:
    """Read ``x / base ** beta`` or ``x * base ** -beta``."""
    pairs = [tuple(last.inputs), tuple(reversed(last.inputs))] if last.op_type == "Mul" else [last.inputs]
    for x, power in pairs:
        if x is None or power is None:
            continue
        walk = _Walk(power)
        node = walk.node("Pow", "Sqrt")
        exponent = 0.5 if node is not None and node.op_type == "Sqrt" else _number(_second(node))
        if node is None or exponent is None or node.inputs[0] is None:
            continue
        walk.over(node, node.inputs[0])
        normalisation = _base(walk, x, beta=exponent if last.op_type == "Div" else -exponent)
        if normalisation is not None:
            return normalisation
    return None


def _second(node: ir.Node | None) -> ir.Value | None:
    return node.inputs[1] if node is not None and len(node.inputs) > 1 else None


def _base(walk: _Walk, x: ir.Value, *, beta: float) -> _Normalisation | None:
    """Read ``bias + alpha * mean(x * x)``."""
    bias = walk.over_number("Add", 0.0)
    alpha = walk.over_number("Mul", 1.0)
    for _ in walk.over_views():
        pass
    pool = walk.node("AveragePool")
    if bias is None or alpha is None or beta <= 0 or pool is None or pool.inputs[0] is None:
        return None
    walk.over(pool, pool.inputs[0])
    padded = _pads_of(pool)
    for node in walk.over_views("Pad"):
        if node.op_type == "Pad":
            added = _added(node)
            if added is None or padded is None or len(added) != len(padded):
                return None
            padded = [a + b for a, b in zip(added, padded, strict=True)]
    if padded is None or not _is_square(walk, x):
        return None
    settings = {"alpha": alpha, "beta": beta}
    size = _size_over_channels(pool, padded, x)
    if size is not None:
        return _Normalisation(x, walk.nodes, "LRN", "", {**settings, "bias": bias, "size": size})
    size = _size_within(pool, padded, x)
    if size is not None and bias == 1:
        return _Normalisation(x, walk.nodes, "ChannelLRN", DOMAIN, {**settings, "size": size})
    return None


def _pads_of(pool: ir.Node) -> list[int] | None:
    """Return the padding of a pooling of step 1 that counts it: all begins, then all ends."""
    attributes = attributes_of(pool)
    windows = PoolWindows.of(pool.domain, attributes)
    is_plain = attributes.get("auto_pad", "NOTSET") == "NOTSET" and set(windows.dilations) == {1}
    counted = windows.counts_padding or not windows.any_pad
    is_dense = set(windows.strides) == {1}
    return [*windows.begin, *windows.end] if is_plain and counted and is_dense else None


def _added(pad: ir.Node) -> list[int] | None:
    """Return what a Pad adds of zeros to the axes behind the first two."""
    amounts = pad.inputs[1].const_value if len(pad.inputs) > 1 and pad.inputs[1] is not None else None
    value = _number(pad.inputs[2]) if len(pad.inputs) > 2 and pad.inputs[2] is not None else 0.0
    axes = len(pad.inputs) > 3 and pad.inputs[3] is not None
    if amounts is None or value != 0 or axes or attributes_of(pad).get("mode", "constant") != "constant":
        return None
    pads = [int(amount) for amount in amounts.numpy()]
    half = len(pads) // 2
    return None if any(pads[:2] + pads[half : half + 2]) else [*pads[2:half], *pads[half + 2 :]]


def _is_square(walk: _Walk, x: ir.Value) -> bool:
    """Go over ``x * x``."""
    node = walk.node("Mul", "Pow")
    if node is None or node.inputs[0] is not x:
        return False
    squared = node.inputs[1] is x if node.op_type == "Mul" else _number(node.inputs[1]) == 2
    walk.over(node, x)
    return squared


def _size_over_channels(pool: ir.Node, padded: list[int], x: ir.Value) -> int | None:
    """Return the window of a pooling over channels that became an axis, as LRN has it."""
    kernel, shape = attributes_of(pool)["kernel_shape"], known_shape(x)
    seen = known_shape(pool.outputs[0])
    rank, size = len(kernel), kernel[0]
    before, after = (size - 1) // 2, size // 2
    wanted = [before, *[0] * (rank - 1), after, *[0] * (rank - 1)]
    if shape is None or seen is None or seen[1:3] != (1, shape[1]) or len(shape) < 3:
        return None
    return size if set(kernel[1:]) <= {1} and padded == wanted else None


def _size_within(pool: ir.Node, padded: list[int], x: ir.Value) -> int | None:
    """Return the window of a pooling within each channel, as ChannelLRN has it."""
    kernel, shape = attributes_of(pool)["kernel_shape"], known_shape(x)
    size = kernel[0]
    square = len(kernel) == 2 and set(kernel) == {size} and size % 2 == 1
    same = shape is not None and known_shape(pool.outputs[0]) == shape
    return size if square and same and padded == [(size - 1) // 2] * 4 else None
