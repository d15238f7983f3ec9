"""Words for settings: as people say them, and as the files of a format spell them in its dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.comparison.explain.isolated import POOLS, pooling_call
from netweave.comparison.metric import constants_of
from netweave.formats.dialect import dialect_of
from netweave.graph import attributes_of, default_attributes, known_shape
from netweave.graph.passes.windows import PADDING_RULE_PROP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    import onnx_ir as ir

    from netweave.formats.dialect import Dialect

SWITCHES = frozenset({"count_include_pad", "keepdims"})
"""Settings that are true or false."""

WINDOW_SIZES = frozenset({"kernel_shape", "strides", "dilations"})

SLOPED = frozenset({"LeakyRelu", "Elu"})
"""Activations that have a slope."""


OPERATORS_IN_WORDS = {
    "Attention": "attention",
    "Gelu": "GELU",
    "HardSwish": "hard-swish",
    "LayerNormalization": "LayerNorm",
    "RMSNormalization": "RMSNorm",
    "RotaryEmbedding": "the rotary embedding",
    "Swish": "SiLU",
}
"""Operators that many files write as several nodes, none of which is called so: the words name them."""


def in_words(name: str, value: Any) -> str:
    """Return a value of a setting for people.

    >>> in_words("pads", (0, 0, 1, 1)), in_words("pads", (1, 1, 1, 1)), in_words("epsilon", 1e-05)
    ('0 before and 1 after', '1', '1e-05')
    """
    if name == "pads" and isinstance(value, tuple) and value:
        half = len(value) // 2
        begin, end = value[:half], value[half:]
        if len(set(value)) == 1:
            return str(value[0])
        if len(set(begin)) == len(set(end)) == 1:
            return f"{begin[0]} before and {end[0]} after"
        return f"{begin} before and {end} after" if begin != end else str(begin)
    if isinstance(value, tuple):
        return str(value[0]) if len(set(value)) == 1 else str(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    return "not set" if value is None else str(value)


def setting(format: str, node: ir.Node, name: str, value: Any) -> str:  # noqa: A002
    """Return how the files of a format spell a setting of a node, ready to be written."""
    words = dialect_of(format)
    if name == "rounding":
        return (words.rounding or {}).get(value, f"the rounding rule {value!r}")
    if name == "pads":
        return _padding(words, node, value)
    if name == "is_causal":  # code that computes its mask has no such argument to be edited
        return "mask later steps, as is_causal=True does" if value else "remove the causal mask"
    key = f"{node.op_type}.{name}"
    written = words.names.get(key) or words.names.get(name, name)
    if isinstance(value, tuple) and written.count("{}") == len(value):
        return written.format(*value)
    if words.sums_in_lrn and key == "LRN.alpha":
        value /= attributes_of(node)["size"]  # ONNX multiplies the mean by alpha
    if key in words.radius:
        value = (value - 1) // 2
    return words.setting.format(name=written, value=_value(words, name, value))


def _value(words: Dialect, name: str, value: Any) -> str:
    if name in SWITCHES and words.booleans is not None:
        return words.booleans[bool(value) != (name in words.inverted)]
    if isinstance(value, tuple):
        return _sizes(words, value, words.window_sizes if name in WINDOW_SIZES else "")
    return in_words(name, value)


def _sizes(words: Dialect, sizes: Sequence[int], template: str = "") -> str:
    if words.is_one_size and len(set(sizes)) == 1:
        return str(sizes[0])
    return (template or words.sizes).format(sizes=words.separator.join(map(str, sizes)))


def slope_setting(format: str, count: int, *, shared: bool) -> str:  # noqa: A002
    """Return how the files of a format say that a PReLU has one slope, or one for each channel."""
    return dialect_of(format).slopes[0 if shared else 1].format(count=count)


def bias_setting(format: str, *, has_bias: bool) -> str:  # noqa: A002
    """Return how the files of a format say that a convolution or dense layer has a bias; empty if unknown."""
    words = dialect_of(format)
    return words.bias[has_bias] if words.bias else ""


def resize_setting(format: str, node: ir.Node, names: AbstractSet[str]) -> str:  # noqa: A002
    """Return how the files of a format say how a node resizes images, as far as it differs."""
    values = {**default_attributes("Resize"), **attributes_of(node)}
    mode, rule = values["mode"], values["coordinate_transformation_mode"]
    resizing = dialect_of(format).resizing
    if resizing is not None and mode in resizing.modes and rule not in resizing.lacks:
        settings = [resizing.modes[mode]] if "mode" in names or resizing.is_complete else []
        if mode in resizing.modes_with_rules and resizing.rules:
            other = resizing.rules.get("", f"coordinate_transformation_mode={rule}")
            settings.append(resizing.rules.get(rule, other))
        return " ".join(settings)
    if "mode" in names and rule not in {"asymmetric", "half_pixel", "pytorch_half_pixel"}:
        names = names | {"coordinate_transformation_mode"}
    return " ".join(f"{name}={values[name]}" for name in sorted(names, key=lambda name: name != "mode"))


def count_of_filters(format: str, node: ir.Node, count: int) -> str:  # noqa: A002
    """Return how the files of a format say that a convolution or dense layer has so many filters or units."""
    words = dialect_of(format)
    return (words.units if node.op_type in {"Gemm", "MatMul"} else words.filters).format(count)


def operator(format: str, node_a: ir.Node, node_b: ir.Node) -> str:  # noqa: A002
    """Return how B's files would say that a layer computes A's operator; empty if no setting does.

    Args:
        format: B's format.
        node_a: What A computes.
        node_b: What B computes now, which says which setting it is.
    """
    words = dialect_of(format)
    if words.is_op_type and not node_a.domain:
        return f"op_type={node_a.op_type}"
    if words.rectifier_slope and {node_a.op_type, node_b.op_type} == {"Relu", "LeakyRelu"}:
        slope = attributes_of(node_a).get("alpha", 0.01) if node_a.op_type == "LeakyRelu" else 0.0
        return words.rectifier_slope.format(alpha=f"{slope:.6g}")
    if words.own_activations and node_a.op_type == "LeakyRelu":
        return activation_setting(format, node_a) if node_b.op_type in words.own_activations else ""
    if words.activations:
        called = _called(format, words, node_a, node_b)
        return f"use {called}" if called else ""
    for table in words.operators:
        a, b = (_in_table(words, table, node) for node in (node_a, node_b))
        if a and b and a != b:
            return a
    return ""


def _in_table(words: Dialect, table: Mapping[str, str], node: ir.Node) -> str:
    if node.op_type == "Clip" and "Relu" in table:
        return _bounded_rectifier(words, node)
    return table.get(node.op_type, "")


def _called(format: str, words: Dialect, node_a: ir.Node, node_b: ir.Node) -> str:  # noqa: A002
    """Return what a line of code would call to compute A's operator; empty if nothing is known."""
    op_types = {node_a.op_type, node_b.op_type}
    if op_types <= words.reductions.keys():
        rank = len(known_shape(node_a.inputs[0]) or (0,) * 4) - 2
        return words.reductions[node_a.op_type].format(rank=rank)
    if op_types <= POOLS.keys():
        return pooling_call(format, node_a)
    if op_types <= words.arithmetic.keys():
        # one that adds or multiplies by a number has that number in the file as well
        return "" if constants_of(node_a) or constants_of(node_b) else words.arithmetic[node_a.op_type]
    return _activation(words, node_a) if _activation(words, node_b) else ""


def _activation(words: Dialect, node: ir.Node) -> str:
    """Return an activation as the code of a format calls it; empty if it is none."""
    if node.op_type == "Clip":
        return _bounded_rectifier(words, node)
    alpha = attributes_of(node).get("alpha")
    is_default = node.op_type == "Elu" and alpha == 1  # in every framework
    if node.op_type in SLOPED and alpha is not None and not is_default:
        return words.activations.get(f"{node.op_type}.alpha", "").format(alpha=f"{alpha:.6g}")
    return words.activations.get(node.op_type, "")


def _bounded_rectifier(words: Dialect, node: ir.Node) -> str:
    """Return a rectifier with an upper bound as the files of a format write it; empty for others."""
    bounds = {i: v.const_value.numpy() for i, v in constants_of(node).items() if v.const_value is not None}
    if bounds.keys() != {1, 2} or bounds[1] != 0:
        return ""
    bound = f"{float(bounds[2]):.6g}"
    return words.bounded_rectifiers.get(bound) or words.bounded_rectifier.format(bound=bound)


def activation_setting(format: str, node: ir.Node | None) -> str:  # noqa: A002
    """Return how a layer's own setting says which activation follows; empty where that is another layer.

    Args:
        format: The format.
        node: The activation; None for none.
    """
    words = dialect_of(format)
    if node is None:
        return words.own_activations.get("", "")
    slope = attributes_of(node).get("alpha", 0.01) if node.op_type == "LeakyRelu" else words.own_slope
    if words.own_slope is not None and slope is not None and abs(slope - words.own_slope) > 1e-6:
        return ""
    return words.own_activations.get(node.op_type, "")


def function_setting(format: str, name: str, nodes: Sequence[ir.Node]) -> str:  # noqa: A002
    """Return how B's files say that a layer computes a function; empty where they have no word for it.

    Args:
        format: B's format.
        name: What people call the function.
        nodes: A's nodes that compute it.
    """
    words = dialect_of(format)
    known = words.functions.get(name) or (_activation(words, nodes[0]) if len(nodes) == 1 else "")
    return f"use {known}" if known and words.activations else known


def input_order(order: Sequence[int]) -> str:
    """Return how a node's inputs are to be ordered, counted from 1 as they stand now."""
    return f"put the inputs in the order {', '.join(str(i + 1) for i in order)}"


def in_order_of_a(node: ir.Node, parts_a: Sequence[str], parts_b: Sequence[str | None]) -> str:
    """Return the order that a node's inputs lack: with two of them there is only one other.

    Args:
        node: B's node.
        parts_a: Signals of A that A's node joins, in its order.
        parts_b: Signals of A that are the counterparts of B's inputs; None where it is not known.
    """
    is_known = len(set(parts_a)) == len(parts_a) == len(node.inputs) and set(parts_a) == set(parts_b)
    if is_known and len(parts_b) == len(parts_a):
        return input_order([parts_b.index(part) for part in parts_a])
    return input_order((1, 0)) if len(node.inputs) == 2 else "put its inputs in A's order"


def _padding(words: Dialect, node: ir.Node, value: tuple[int, ...]) -> str:
    padding = words.padding
    half = len(value) // 2
    begin, end = value[:half], value[half:]
    if padding.divided and node.op_type in POOLS:
        total = {first + last for first, last in zip(begin, end, strict=True)}
        if len(total) == 1 and begin == tuple(first // 2 for first in total) * half:
            return padding.divided.format(total.pop())
    if padding.same and _is_same(node, begin, end):
        return padding.same
    if padding.zero and not any(value):
        return padding.zero
    pairs = ", ".join(str(list(pair)) for pair in zip(begin, end, strict=True))
    template = padding.each or padding.before_both_sides
    if not template:
        if begin != end:
            return f"padding {begin} before and {end} after, which takes a layer of its own before this one"
        differs = half == 2 and len(set(begin)) > 1
        template = padding.before or (padding.by_axis if differs else "") or padding.both
    return template.format(
        begin=_sizes(words, begin),
        end=_sizes(words, end),
        begin_end=list(value),
        axes=begin,
        rows=begin[0],
        columns=begin[-1],
        pairs=pairs,
    )


def _is_same(node: ir.Node, begin: tuple[int, ...], end: tuple[int, ...]) -> bool:
    """Return whether a padding is that of TensorFlow's rule SAME, whatever the size of the image."""
    if node.metadata_props.get(PADDING_RULE_PROP) == "SAME_UPPER":
        return True
    settings = attributes_of(node)
    kernel = settings.get("kernel_shape")
    if kernel is None or not any(begin) or set(settings.get("strides", (1,))) != {1}:
        return False
    steps = settings.get("dilations", (1,) * len(kernel))
    total = [(size - 1) * step for size, step in zip(kernel, steps, strict=True)]
    return list(begin) == [size // 2 for size in total] and list(end) == [size - size // 2 for size in total]


def padding_layer_setting(format: str, pairs: Sequence[Sequence[int]], axes: Sequence[int]) -> str:  # noqa: A002
    """Return how the files of a format say what a layer pads images by; empty where they have no such layer.

    Args:
        format: The format.
        pairs: What is added before and after each axis.
        axes: The axes along which the nets differ.

    >>> padding_layer_setting("keras", [(0, 0), (0, 1), (2, 3), (0, 0)], [1])
    'padding=((0, 1), (2, 3))'
    >>> padding_layer_setting("pytorch", [(0, 0), (0, 0), (0, 1), (2, 3)], [2, 3])
    'padding=(2, 3, 0, 1)'
    """
    words = dialect_of(format)
    first = 1 if words.channels_last and 1 in axes else 2
    shown = [", ".join(map(str, pair)) for pair in pairs[first : first + 2]]
    if len(pairs) != 4 or any(any(pair) for pair in (*pairs[:first], *pairs[first + 2 :])):
        return ""
    return words.padding_layer.format(rows=shown[0], columns=shown[1])


def in_groups(count_a: int, count_b: int) -> str:
    """Say that two convolutions read their channels in other numbers of groups.

    >>> in_groups(2, 1)
    'the channels are read in 2 groups in A and in one group in B'
    """
    a, b = (f"{count} groups" if count > 1 else "one group" for count in (count_a, count_b))
    return f"the channels are read in {a} in A and in {b} in B"
