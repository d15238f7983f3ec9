"""Words for settings: as people say them, and as the source's own files spell them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from netweave.comparison.explain.pooling_calls import POOLS, pooling_call
from netweave.comparison.signals import constants_of
from netweave.graph import attributes_of, default_attributes, known_shape
from netweave.graph.passes.specialise import PADDING_RULE_PROP

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    import onnx_ir as ir

CAFFE = {
    "kernel_shape": "kernel_size",
    "pads": "pad",
    "strides": "stride",
    "dilations": "dilation",
    "group": "group",
    "epsilon": "eps",
    "size": "local_size",
    "bias": "k",
    "axis": "axis",
}
MXNET = {
    "kernel_shape": "kernel",
    "pads": "pad",
    "strides": "stride",
    "dilations": "dilate",
    "group": "num_group",
    "epsilon": "eps",
    "size": "nsize",
    "bias": "knorm",
}
SINGA = {
    "kernel_shape": "kernel",
    "pads": "pad",
    "strides": "stride",
    "size": "local_size",
    "bias": "knorm",
}
PYTORCH = {
    "kernel_shape": "kernel_size",
    "pads": "padding",
    "strides": "stride",
    "dilations": "dilation",
    "group": "groups",
    "epsilon": "eps",
    "size": "size",
    "bias": "k",
    "axis": "dim",
}
CHAINER = {
    "kernel_shape": "ksize",
    "pads": "pad",
    "strides": "stride",
    "dilations": "dilate",
    "group": "groups",
    "epsilon": "eps",
    "size": "n",
    "bias": "k",
}
DARKNET = {
    "kernel_shape": "size",
    "pads": "padding",
    "strides": "stride",
    "dilations": "dilation",
    "group": "groups",
}
KERAS = {"kernel_shape": "kernel_size", "dilations": "dilation_rate", "group": "groups"}

CALLS = {"pytorch": PYTORCH, "chainer": CHAINER, "darknet": DARKNET, "keras": KERAS}
"""Formats whose settings are arguments, or lines like them: name, '=', and one number if all are the same."""

ROUNDING = {
    ("pytorch", "floor"): "ceil_mode=False",
    ("pytorch", "ceil"): "ceil_mode=True",
    ("pytorch", "caffe"): "ceil_mode=True",
    ("chainer", "floor"): "cover_all=False",
    ("chainer", "ceil"): "cover_all=True",
    ("chainer", "full"): "cover_all=True",
    ("caffe", "floor"): "round_mode: FLOOR",
    ("caffe", "ceil"): "round_mode: CEIL",
    ("caffe", "caffe"): "round_mode: CEIL",
    ("mxnet", "floor"): "pooling_convention=valid",
    ("mxnet", "ceil"): "pooling_convention=full",
    ("mxnet", "full"): "pooling_convention=full",
    ("singa", "ceil"): "rounding up, which no pooling of SINGA's does",
    ("singa", "caffe"): "rounding up, which no pooling of SINGA's does",
    ("singa", "full"): "rounding up, which no pooling of SINGA's does",
    ("onnx", "floor"): "ceil_mode=0",
    ("onnx", "ceil"): "ceil_mode=1",
}

FILTERS = {
    "caffe": ("num_output: {}", "num_output: {}"),
    "mxnet": ("num_filter={}", "num_hidden={}"),
    "singa": ("num_filters: {}", "num_output: {}"),
    "pytorch": ("out_channels={}", "out_features={}"),
    "chainer": ("out_channels={}", "out_size={}"),
    "darknet": ("filters={}", "output={}"),
    "keras": ("filters={}", "units={}"),
}
"""How files say the number of filters of a convolution, and that of the units of a dense layer."""

_DARKNET = {
    "Relu": "activation=relu",
    "LeakyRelu": "activation=leaky",
    "Sigmoid": "activation=logistic",
    "Tanh": "activation=tanh",
    "Elu": "activation=elu",
    "Mish": "activation=mish",
}

OPERATORS: dict[str, tuple[dict[str, str], ...]] = {
    "caffe": (
        {name: f"pool: {'MAX' if kind == 'max' else 'AVE'}" for name, kind in POOLS.items()},
        {"Add": "operation: SUM", "Mul": "operation: PROD", "Max": "operation: MAX"},
        {"LRN": "norm_region: ACROSS_CHANNELS", "ChannelLRN": "norm_region: WITHIN_CHANNEL"},
        {
            "Abs": 'type: "AbsVal"', "Elu": 'type: "ELU"', "Relu": 'type: "ReLU"',
            "Sigmoid": 'type: "Sigmoid"', "Softplus": 'type: "BNLL"', "Tanh": 'type: "TanH"',
        },
    ),
    "singa": (
        {name: f"pool: {'MAX' if kind == 'max' else 'AVG'}" for name, kind in POOLS.items()},
        {"Relu": "type: kReLU", "Sigmoid": "type: kSigmoid"},
    ),
    "darknet": (_DARKNET,),
    "mxnet": (
        {name: f"pool_type={'max' if kind == 'max' else 'avg'}" for name, kind in POOLS.items()},
        {
            "Relu": "act_type=relu", "Sigmoid": "act_type=sigmoid", "Softplus": "act_type=softrelu",
            "Softsign": "act_type=softsign", "Tanh": "act_type=tanh",
        },
        {"Add": "op=elemwise_add", "Mul": "op=elemwise_mul", "Sub": "op=elemwise_sub"},
    ),
}  # fmt: skip
"""How files say which operator a layer computes: one table for each setting, whose values stand in it."""


def _by_name(*written: str) -> dict[str, str]:
    """Return how activations are written by ONNX's name in lower case, which is the last word of each."""
    return {re.findall(r"\w+", text)[-1].replace("_", "").lower(): text for text in written}


ARITHMETIC: dict[str, dict[str, str]] = {
    **{name: {"Add": "use the operator +", "Mul": "use the operator *", "Sub": "use the operator -"}
       for name in ("pytorch", "chainer")},
    "keras": {"Add": "use Add", "Mul": "use Multiply", "Sub": "use Subtract", "Max": "use Maximum"},
}  # fmt: skip
"""How Python files say what is done with two tensors."""

MODULES: dict[str, dict[str, str]] = {
    "pytorch": _by_name(
        "nn.ReLU", "nn.LeakyReLU", "nn.ELU", "nn.Sigmoid", "nn.Tanh", "nn.Softplus", "nn.Softsign", "nn.Mish",
        "nn.Hardswish", "nn.GELU", "nn.SELU",
    ),
    "keras": _by_name("ReLU", "LeakyReLU", "ELU", "Activation('sigmoid')", "Activation('tanh')"),
    "chainer": _by_name("F.relu", "F.leaky_relu", "F.elu", "F.sigmoid", "F.tanh", "F.softplus"),
}  # fmt: skip
"""How Python files write an activation: modules, layers, functions."""


KERAS_REDUCTIONS = {"ReduceMean": "GlobalAverage", "ReduceMax": "GlobalMax"}
"""Keras' poolings over the whole image, by the operators that they are read as."""

KERAS_INTERPOLATION = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}

WHOLE_FUNCTIONS: dict[str, dict[str, str]] = {
    "darknet": {"Mish": "activation=mish", "Swish": "activation=swish"},
    "keras": {"Mish": "use Activation('mish')", "Swish": "use Activation('swish')"},
    "pytorch": {"Mish": "use nn.Mish()", "Swish": "use nn.SiLU()", "HardSwish": "use nn.Hardswish()"},
}
"""How files say functions that are several nodes in some net."""


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
    if name == "rounding":
        return ROUNDING.get((format, value), f"the rounding rule {value!r}")
    if name == "pads":
        return _padding(format, node, value)
    if name == "is_causal":  # code that computes its mask has no such argument to be edited
        return "mask later steps, as is_causal=True does" if value else "remove the causal mask"
    if format == "caffe":
        if node.op_type == "LeakyRelu":
            return f"negative_slope: {in_words(name, value)}"
        return f"{CAFFE.get(name, name)}: {in_words(name, value)}"
    if format == "singa":
        return f"{SINGA.get(name, name)}: {in_words(name, value)}"
    if format == "mxnet":
        if node.op_type == "LeakyRelu":
            return f"slope={in_words(name, value)}"
        shown = f"({', '.join(map(str, value))})" if isinstance(value, tuple) else in_words(name, value)
        return f"{MXNET.get(name, name)}={shown}"
    if format in CALLS:
        return _called_with(format, node, name, value)
    shown = str(list(value)) if isinstance(value, tuple) else in_words(name, value)
    return f"{name}={shown}"


def _called_with(format: str, node: ir.Node, name: str, value: Any) -> str:  # noqa: A002
    """Return a setting as an argument of the call that Python code makes."""
    if format == "chainer" and node.op_type == "LRN" and name == "alpha":
        value /= attributes_of(node)["size"]  # Chainer multiplies the sum by alpha, ONNX the mean
    return f"{_argument(format, node, name)}={_call_value(name, value)}"


def slope_setting(format: str, count: int, *, shared: bool) -> str:  # noqa: A002
    """Return how the files of a format say that a PReLU has one slope, or one for each channel."""
    known = {
        "pytorch": f"num_parameters={1 if shared else count}",
        "caffe": f"channel_shared: {str(shared).lower()}",
        "keras": "shared_axes=[1, 2, 3]" if shared else "shared_axes=[1, 2]",
        "chainer": f"shape={'()' if shared else f'({count},)'}",
    }
    return known.get(
        format, "learn one slope for all channels" if shared else "learn one slope for each channel"
    )


def bias_setting(format: str, *, has_bias: bool) -> str:  # noqa: A002
    """Return how the files of a format say that a convolution or dense layer has a bias; empty if unknown."""
    known = {
        "pytorch": f"bias={has_bias}",
        "keras": f"use_bias={has_bias}",
        "chainer": f"nobias={not has_bias}",
        "mxnet": f"no_bias={not has_bias}",
        "caffe": f"bias_term: {str(has_bias).lower()}",
    }
    return known.get(format, "")


def resize_setting(format: str, node: ir.Node, names: AbstractSet[str]) -> str:  # noqa: A002
    """Return how the files of a format say how a node resizes images, as far as it differs."""
    values = {**default_attributes("Resize"), **attributes_of(node)}
    mode, rule = values["mode"], values["coordinate_transformation_mode"]
    if format == "pytorch":
        named = {"nearest": "'nearest'", "linear": "'bilinear'", "cubic": "'bicubic'"}
        settings = [f"mode={named[mode]}"] if "mode" in names else []
        if mode != "nearest":  # which takes no align_corners
            settings.append(f"align_corners={rule == 'align_corners'}")
        return " ".join(settings)
    if format == "keras" and rule != "align_corners":  # which no layer of Keras does
        return f"interpolation='{KERAS_INTERPOLATION[mode]}'"
    if "mode" in names and rule not in {"asymmetric", "half_pixel", "pytorch_half_pixel"}:
        names = names | {"coordinate_transformation_mode"}
    return " ".join(f"{name}={values[name]}" for name in sorted(names, key=lambda name: name != "mode"))


def count_of_filters(format: str, node: ir.Node, count: int) -> str:  # noqa: A002
    """Return how the files of a format say that a convolution or dense layer has so many filters or units."""
    is_dense = node.op_type in {"Gemm", "MatMul"}
    return FILTERS[format][is_dense].format(count) if format in FILTERS else f"{count:,} filters"


def _argument(format: str, node: ir.Node, name: str) -> str:  # noqa: A002
    if format == "pytorch" and node.op_type == "LeakyRelu" and name == "alpha":
        return "negative_slope"
    if format == "chainer" and node.op_type == "LeakyRelu" and name == "alpha":
        return "slope"
    if format == "keras" and node.op_type == "LeakyRelu" and name == "alpha":
        return "negative_slope"
    if format == "keras" and name == "kernel_shape" and node.op_type in POOLS:
        return "pool_size"
    return CALLS[format].get(name, name)


def _call_value(name: str, value: Any) -> str:
    if name in {"count_include_pad", "keepdims"}:
        return str(bool(value))
    if isinstance(value, tuple) and len(set(value)) > 1:
        return f"({', '.join(map(str, value))})"
    return in_words(name, value)


def operator(format: str, node_a: ir.Node, node_b: ir.Node) -> str:  # noqa: A002
    """Return how B's files would say that a layer computes A's operator; empty if no setting does.

    Args:
        format: B's format.
        node_a: What A computes.
        node_b: What B computes now, which says which setting it is.
    """
    if format == "onnx" and not node_a.domain:
        return f"op_type={node_a.op_type}"
    if {node_a.op_type, node_b.op_type} == {"Relu", "LeakyRelu"} and format in {"caffe", "singa"}:
        slope = attributes_of(node_a).get("alpha", 0.01) if node_a.op_type == "LeakyRelu" else 0.0
        return f"negative_slope: {slope:.6g}"  # both are layers of type ReLU
    if format == "darknet" and node_a.op_type == "LeakyRelu":
        return activation_setting(format, node_a) if node_b.op_type in _DARKNET else ""
    if format in MODULES:
        return _python_operator(format, node_a, node_b)
    for table in OPERATORS.get(format, ()):
        if node_a.op_type in table and node_b.op_type in table and node_a.op_type != node_b.op_type:
            return table[node_a.op_type]
    return ""


def _python_operator(format: str, node_a: ir.Node, node_b: ir.Node) -> str:  # noqa: A002
    """Return what a line of Python would call to compute A's operator; empty if nothing is known."""
    if format == "keras" and {node_a.op_type, node_b.op_type} <= KERAS_REDUCTIONS.keys():
        rank = len(known_shape(node_a.inputs[0]) or (0,) * 4) - 2
        return f"use {KERAS_REDUCTIONS[node_a.op_type]}Pooling{rank}D"
    if {node_a.op_type, node_b.op_type} <= POOLS.keys():
        call = pooling_call(format, node_a)
        return f"use {call}" if call else ""
    if node_a.op_type == "Clip" and node_b.op_type.lower() in MODULES[format]:
        return _bounded_rectifier(format, node_a)
    signs = ARITHMETIC[format]
    if {node_a.op_type, node_b.op_type} <= signs.keys():
        # one that adds or multiplies by a number has that number in the file as well
        return "" if constants_of(node_a) or constants_of(node_b) else signs[node_a.op_type]
    names = MODULES[format]
    is_activation = node_b.op_type.lower() in names or (
        node_b.op_type == "Clip" and bool(_bounded_rectifier(format, node_b))
    )
    return _as_module(format, node_a) if node_a.op_type.lower() in names and is_activation else ""


def _as_module(format: str, node: ir.Node) -> str:  # noqa: A002
    """Return an activation as it is written in the Python of a format."""
    alpha = attributes_of(node).get("alpha")
    written = MODULES[format][node.op_type.lower()]
    is_default = node.op_type == "Elu" and alpha == 1  # in every framework
    if node.op_type in {"LeakyRelu", "Elu"} and alpha is not None and not is_default:
        argument = "slope=" if format == "chainer" and node.op_type == "LeakyRelu" else ""
        return f"use {written}({argument}{alpha:.6g})"
    is_called = format != "chainer" and not written.endswith(")")
    return f"use {written}" + ("()" if is_called else "")


def _bounded_rectifier(format: str, node: ir.Node) -> str:  # noqa: A002
    """Return a rectifier with an upper bound as it is written in the Python of a format; empty for others."""
    bounds = {i: v.const_value.numpy() for i, v in constants_of(node).items() if v.const_value is not None}
    if bounds.keys() != {1, 2} or bounds[1] != 0:
        return ""
    bound = f"{float(bounds[2]):.6g}"
    known = {"keras": f"use ReLU({bound})", "chainer": f"use F.clipped_relu(z={bound})"}
    if format == "pytorch" and bound == "6":
        return "use nn.ReLU6()"
    return known.get(format, "")


def activation_setting(format: str, node: ir.Node | None) -> str:  # noqa: A002
    """Return how a layer's own setting says which activation follows; empty where that is another layer.

    Args:
        format: The format.
        node: The activation; None for none.
    """
    if format != "darknet":
        return ""
    if node is None:
        return "activation=linear"
    if node.op_type == "LeakyRelu" and abs(attributes_of(node).get("alpha", 0.01) - 0.1) > 1e-6:
        return ""  # Darknet's slope is 0.1
    return _DARKNET.get(node.op_type, "")


def function_setting(format: str, name: str, nodes: Sequence[ir.Node]) -> str:  # noqa: A002
    """Return how B's files say that a layer computes a function; empty where they have no word for it.

    Args:
        format: B's format.
        name: What people call the function.
        nodes: A's nodes that compute it.
    """
    known = WHOLE_FUNCTIONS.get(format, {}).get(name, "")
    if not known and len(nodes) == 1 and nodes[0].op_type.lower() in MODULES.get(format, {}):
        return _as_module(format, nodes[0])
    return known


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


def _padding(format: str, node: ir.Node, value: tuple[int, ...]) -> str:  # noqa: A002
    half = len(value) // 2
    begin, end = value[:half], value[half:]
    if format == "darknet" and node.op_type in POOLS:
        total = {first + last for first, last in zip(begin, end, strict=True)}
        # Darknet divides a pooling's padding, the smaller half before the image (maxpool_layer.c)
        if len(total) == 1 and begin == tuple(first // 2 for first in total) * half:
            return f"padding={total.pop()}"
    if format == "onnx":
        return f"pads={list(value)}"
    if format == "keras" and node.metadata_props.get(PADDING_RULE_PROP) == "SAME_UPPER":
        return "padding='same'"
    if begin != end:
        return f"padding {begin} before and {end} after, which takes a layer of its own before this one"
    if format == "caffe":
        return f"pad: {begin[0]}" if len(set(begin)) == 1 else f"pad_h: {begin[0]} pad_w: {begin[1]}"
    if format == "singa":
        return f"pad: {begin[0]}" if len(set(begin)) == 1 else f"pad_y: {begin[0]} pad_x: {begin[1]}"
    if format == "keras":
        return "padding='valid'" + (f" after ZeroPadding2D({begin})" if any(begin) else "")
    if format in CALLS:
        return f"{CALLS[format]['pads']}={_call_value('pads', begin)}"
    return f"pad=({', '.join(map(str, begin))})"


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
    first = 1 if format == "keras" and 1 in axes else 2  # an image of Keras may have its channels last
    rows = [tuple(pair) for pair in pairs[first : first + 2]]
    if len(pairs) != 4 or any(any(pair) for pair in (*pairs[:first], *pairs[first + 2 :])):
        return ""
    if format == "keras":
        return f"padding={tuple(rows)}"
    return f"padding={(*rows[1], *rows[0])}" if format == "pytorch" else ""


def in_groups(count_a: int, count_b: int) -> str:
    """Say that two convolutions read their channels in other numbers of groups.

    >>> in_groups(2, 1)
    'the channels are read in 2 groups in A and in one group in B'
    """
    a, b = (f"{count} groups" if count > 1 else "one group" for count in (count_a, count_b))
    return f"the channels are read in {a} in A and in {b} in B"
