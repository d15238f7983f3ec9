"""The operators of MXNet in small: what each is called with, and on what."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

IMAGE = (2, 4, 9, 8)
"""Sizes of an input where nothing else is said: no two alike, none a multiple of a window."""


@dataclass
class Case:
    """One call of an operator.

    Attributes:
        name: Unique; the operator and what is special about the call.
        op: The operator's name in ``mxnet.symbol``.
        inputs: Sizes by name, or (sizes, kind of draw; see ``recipe.draw``); one whose name ends in
            ``_weight`` is a parameter.
        settings: Its attributes.
    """

    name: str
    op: str
    inputs: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)


def cases() -> Iterator[Case]:
    """Yield all cases."""
    for op, calls in {**WINDOWS, **LAYERS, **SHAPES, **BLOCKS}.items():
        for label, (inputs, settings) in calls.items():
            given = inputs if isinstance(inputs, dict) else {"data": inputs}
            yield Case(f"{op}: {label}" if label else op, op, given, settings)
    for op in REDUCE:
        for label, settings in AXES.items():
            yield Case(f"{op}: {label}", op, {"data": (2, 3, 4, 5)}, settings)
    yield from _elementwise()


def _elementwise() -> Iterator[Case]:
    some = {kind: ((2, 3, 4), kind) for kind in ("normal", "positive", "integers 3")}
    yield from (Case(op, op, {"lhs": some["positive"], "rhs": some["positive"]}) for op in BINARY)
    for kind, ops in {"positive": BROADCAST, "integers 3": COMPARE}.items():
        yield from (Case(op, op, {"lhs": some[kind], "rhs": ((1, 3, 1), kind)}) for op in ops)
    yield from (Case(op, op, {"data": some["positive"]}, {"scalar": 1.5}) for op in SCALAR)
    for kind, ops in UNARY.items():
        yield from (Case(op, op, {"data": some[kind]}) for op in ops)


Calls = dict[str, dict[str, tuple[Any, dict[str, Any]]]]

WINDOWS: Calls = {
    "Convolution": {
        "": (IMAGE, {"kernel": (3, 3), "num_filter": 5}),
        "stride, pad, dilate": (
            IMAGE,
            {"kernel": (3, 2), "stride": (2, 3), "pad": (2, 1), "dilate": (2, 1), "num_filter": 5},
        ),
        "groups, no bias": (IMAGE, {"kernel": (1, 3), "num_filter": 6, "num_group": 2, "no_bias": True}),
        "depthwise": (IMAGE, {"kernel": (3, 3), "pad": (1, 1), "num_filter": 4, "num_group": 4}),
        "1-D": ((2, 3, 11), {"kernel": (3,), "stride": (2,), "num_filter": 4}),
        "3-D": ((1, 2, 5, 6, 7), {"kernel": (2, 3, 2), "pad": (0, 1, 1), "num_filter": 3}),
    },
    "Deconvolution": {
        "": (IMAGE, {"kernel": (3, 3), "num_filter": 5}),
        "bias": (IMAGE, {"kernel": (2, 3), "stride": (2, 2), "num_filter": 3, "no_bias": False}),
        "adj": (
            IMAGE,
            {"kernel": (3, 4), "stride": (2, 3), "pad": (1, 0), "adj": (1, 2), "num_filter": 3},
        ),
        "target_shape": (
            IMAGE,
            {"kernel": (4, 4), "stride": (2, 2), "target_shape": (17, 16), "num_filter": 3},
        ),
        "target_shape beside pad": (
            IMAGE,
            {"kernel": (4, 4), "stride": (2, 2), "pad": (0, 0), "target_shape": (18, 15), "num_filter": 3},
        ),
        "groups": (
            IMAGE,
            {"kernel": (4, 4), "stride": (2, 2), "pad": (1, 1), "num_filter": 4, "num_group": 4},
        ),
        "dilate": (IMAGE, {"kernel": (3, 3), "dilate": (2, 2), "pad": (1, 1), "num_filter": 2}),
        "1-D": ((2, 3, 7), {"kernel": (4,), "stride": (2,), "pad": (1,), "num_filter": 2}),
    },
    "Pooling": {
        "max": (IMAGE, {"kernel": (3, 3), "stride": (2, 2), "pool_type": "max"}),
        "max, pad": (IMAGE, {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "max"}),
        "max, full": (
            IMAGE,
            {"kernel": (3, 2), "stride": (2, 3), "pool_type": "max", "pooling_convention": "full"},
        ),
        "max, full, last window in the pad": (
            (2, 3, 7, 7),
            {
                "kernel": (2, 2), "stride": (2, 2), "pad": (1, 1), "pool_type": "max",
                "pooling_convention": "full",
            },
        ),
        "avg": (IMAGE, {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "avg"}),
        "avg, without pad": (
            IMAGE,
            {
                "kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "avg",
                "count_include_pad": False,
            },
        ),
        "avg, full": (
            IMAGE,
            {"kernel": (3, 3), "stride": (2, 3), "pool_type": "avg", "pooling_convention": "full"},
        ),
        "avg, full, pad": (
            IMAGE,
            {
                "kernel": (3, 3), "stride": (3, 2), "pad": (1, 1), "pool_type": "avg",
                "pooling_convention": "full",
            },
        ),
        "avg, full, without pad": (
            IMAGE,
            {
                "kernel": (3, 3), "stride": (3, 2), "pad": (1, 1), "pool_type": "avg",
                "pooling_convention": "full", "count_include_pad": False,
            },
        ),
        "sum": (IMAGE, {"kernel": (2, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "sum"}),
        "lp": (IMAGE, {"kernel": (2, 2), "stride": (2, 2), "pool_type": "lp", "p_value": 2}),
        "global max": (IMAGE, {"kernel": (3, 3), "global_pool": True, "pool_type": "max"}),
        "global avg": (IMAGE, {"global_pool": True, "pool_type": "avg"}),
        "global avg, pad": (
            IMAGE,
            {"kernel": (2, 2), "pad": (1, 1), "stride": (2, 2), "global_pool": True, "pool_type": "avg"},
        ),
        "1-D": ((2, 3, 11), {"kernel": (3,), "stride": (2,), "pool_type": "avg"}),
        "3-D": ((1, 2, 6, 7, 5), {"kernel": (2, 3, 2), "stride": (2, 2, 2), "pool_type": "max"}),
    },
    "Pooling_v1": {
        "max": (IMAGE, {"kernel": (3, 3), "stride": (2, 2), "pool_type": "max"}),
        "max, pad": (IMAGE, {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "max"}),
        "max, full, pad": (
            IMAGE,
            {
                "kernel": (3, 3), "stride": (3, 2), "pad": (1, 1), "pool_type": "max",
                "pooling_convention": "full",
            },
        ),
        "avg, pad": (IMAGE, {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "avg"}),
        "avg, full, pad": (
            IMAGE,
            {
                "kernel": (3, 3), "stride": (3, 2), "pad": (1, 1), "pool_type": "avg",
                "pooling_convention": "full",
            },
        ),
        "global": (IMAGE, {"kernel": (3, 3), "global_pool": True, "pool_type": "avg"}),
    },
    "UpSampling": {
        "nearest": (IMAGE, {"scale": 2, "sample_type": "nearest"}),
        "nearest, concat": (
            {"data": (1, 2, 4, 6), "small": (1, 3, 2, 3)},
            {"scale": 2, "sample_type": "nearest", "num_args": 2},
        ),
        "nearest, sum": (
            {"data": (1, 2, 4, 6), "small": (1, 2, 2, 3)},
            {"scale": 2, "sample_type": "nearest", "num_args": 2, "multi_input_mode": "sum"},
        ),
        "bilinear": (IMAGE, {"scale": 2, "sample_type": "bilinear", "num_filter": 4, "num_args": 2}),
    },
    "Crop": {
        "offset": (IMAGE, {"offset": (1, 2), "h_w": (5, 4), "num_args": 1}),
        "centre": (IMAGE, {"h_w": (5, 4), "center_crop": True, "num_args": 1}),
        "like": ({"data": IMAGE, "like": (2, 4, 5, 3)}, {"num_args": 2, "offset": (2, 1)}),
        "like, centre": ({"data": IMAGE, "like": (2, 4, 5, 3)}, {"num_args": 2, "center_crop": True}),
    },
    "Pad": {
        "constant": (
            IMAGE,
            {"mode": "constant", "pad_width": (0, 0, 0, 0, 1, 2, 3, 0), "constant_value": 0.5},
        ),
        "edge": (IMAGE, {"mode": "edge", "pad_width": (0, 0, 0, 0, 1, 2, 3, 0)}),
        "reflect": (IMAGE, {"mode": "reflect", "pad_width": (0, 0, 0, 0, 1, 2, 3, 0)}),
    },
}  # fmt: skip

LAYERS: Calls = {
    "FullyConnected": {
        "": (IMAGE, {"num_hidden": 5}),
        "no bias": ((3, 7), {"num_hidden": 5, "no_bias": True}),
        "not flat": ((2, 3, 7), {"num_hidden": 5, "flatten": False}),
    },
    "BatchNorm": {
        "": (IMAGE, {}),
        "gamma": (IMAGE, {"fix_gamma": False, "eps": 2e-5}),
        "global": (IMAGE, {"fix_gamma": False, "use_global_stats": True, "momentum": 0.99}),
        "axis": (IMAGE, {"fix_gamma": False, "axis": 3}),
        "matrix": ((3, 7), {"fix_gamma": False}),
    },
    "Activation": {
        kind: (IMAGE, {"act_type": kind}) for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign")
    },
    "LeakyReLU": {
        "": (IMAGE, {}),
        "leaky": (IMAGE, {"act_type": "leaky", "slope": 0.1}),
        "elu": (IMAGE, {"act_type": "elu", "slope": 0.5}),
        "prelu": (IMAGE, {"act_type": "prelu"}),
        "selu": (IMAGE, {"act_type": "selu"}),
        "gelu": (IMAGE, {"act_type": "gelu"}),
    },
    "SoftmaxOutput": {
        "": ((3, 5), {}),
        "4-D": ((2, 3, 2, 2), {}),
        "multi_output": ((2, 3, 2, 4), {"multi_output": True}),
        "preserve_shape": ((2, 3, 4), {"preserve_shape": True}),
    },
    "LinearRegressionOutput": {"": ((3, 5), {})},
    "LogisticRegressionOutput": {"": ((3, 5), {})},
    "MAERegressionOutput": {"": ((3, 5), {})},
    "SVMOutput": {"": ((3, 5), {})},
    "MakeLoss": {"": ((3, 5), {"grad_scale": 2.0})},
    "BlockGrad": {"": ((3, 5), {})},
    "identity": {"": ((3, 5), {})},
    "SoftmaxActivation": {
        "": (IMAGE, {}),
        "channel": (IMAGE, {"mode": "channel"}),
    },
    "softmax": {
        "": (IMAGE, {}),
        "axis, temperature": (IMAGE, {"axis": 1, "temperature": 2.0}),
    },
    "log_softmax": {"": (IMAGE, {}), "axis": (IMAGE, {"axis": 1})},
    "softmin": {"": (IMAGE, {"axis": 1})},
    "LRN": {"": ((2, 7, 4, 3), {"nsize": 5, "alpha": 0.1, "beta": 0.6, "knorm": 1.5})},
    "Dropout": {"": (IMAGE, {"p": 0.3})},
    "Embedding": {"": (((2, 3), "integers 7"), {"input_dim": 7, "output_dim": 4})},
    "L2Normalization": {
        mode: (IMAGE, {"mode": mode, "eps": 1e-3}) for mode in ("instance", "channel", "spatial")
    },
    "InstanceNorm": {"": (IMAGE, {"eps": 0.01})},
    "LayerNorm": {"": ((2, 3, 6), {}), "axis": (IMAGE, {"axis": 1, "eps": 0.01})},
    "GroupNorm": {"": (IMAGE, {"num_groups": 2})},
    "RNN": {
        "lstm": ({"data": (5, 2, 3)}, {"mode": "lstm", "state_size": 4, "num_layers": 1}),
        "gru": ({"data": (5, 2, 3)}, {"mode": "gru", "state_size": 4, "num_layers": 1}),
        "rnn_tanh": ({"data": (5, 2, 3)}, {"mode": "rnn_tanh", "state_size": 4, "num_layers": 1}),
        "rnn_relu": ({"data": (5, 2, 3)}, {"mode": "rnn_relu", "state_size": 4, "num_layers": 1}),
        "lstm, two layers, both ways, states": (
            {"data": (5, 2, 3)},
            {"mode": "lstm", "state_size": 4, "num_layers": 2, "bidirectional": True, "state_outputs": True},
        ),
        "gru, two layers, both ways": (
            {"data": (5, 2, 3)},
            {"mode": "gru", "state_size": 4, "num_layers": 2, "bidirectional": True},
        ),
    },
}

SHAPES: Calls = {
    "Concat": {
        "": ({"first": (2, 3, 4), "second": (2, 5, 4)}, {"dim": 1}),
        "last": ({"first": (2, 3, 4), "second": (2, 3, 2), "third": (2, 3, 1)}, {"dim": -1}),
    },
    "SliceChannel": {
        "": ((2, 6, 4), {"num_outputs": 3}),
        "axis": ((2, 3, 4), {"num_outputs": 2, "axis": 2}),
        "squeeze": ((2, 3, 4), {"num_outputs": 3, "squeeze_axis": True}),
    },
    "Flatten": {"": (IMAGE, {})},
    "Reshape": {
        "0 -1": (IMAGE, {"shape": (0, -1)}),
        "0 0 -1": (IMAGE, {"shape": (0, 0, -1)}),
        "-1 4": (IMAGE, {"shape": (-1, 4)}),
        "0 -2": (IMAGE, {"shape": (0, -2)}),
        "0 -3 -2": (IMAGE, {"shape": (0, -3, -2)}),
        "0 -4 2 -1 -2": (IMAGE, {"shape": (0, -4, 2, -1, -2)}),
        "0 -4 -1 2 -3": (IMAGE, {"shape": (0, -4, -1, 2, -3)}),
        "reverse": ((2, 5, 4), {"shape": (-1, 0), "reverse": True}),
        "target_shape": (IMAGE, {"target_shape": (0, 288)}),
    },
    "SwapAxis": {"": (IMAGE, {"dim1": 1, "dim2": 3})},
    "transpose": {"": (IMAGE, {}), "axes": (IMAGE, {"axes": (0, 2, 3, 1)})},
    "expand_dims": {"": ((2, 3), {"axis": 1}), "last": ((2, 3), {"axis": -1})},
    "squeeze": {"": ((2, 1, 3, 1), {"axis": 1}), "all": ((2, 1, 3, 1), {})},
    "slice": {
        "": (IMAGE, {"begin": (0, 1), "end": (2, 3)}),
        "step": (IMAGE, {"begin": (None, 0, None, 1), "end": (None, None, 7, None), "step": (1, 2, 1, 3)}),
        "back": (IMAGE, {"begin": (None, None, -1), "end": (None, None, None), "step": (1, 1, -2)}),
    },
    "slice_axis": {
        "": (IMAGE, {"axis": 2, "begin": 1, "end": 5}),
        "open": (IMAGE, {"axis": -1, "begin": -3, "end": None}),
    },
    "slice_like": {
        "": ({"data": IMAGE, "shape_like": (2, 4, 5, 3)}, {}),
        "axes": ({"data": IMAGE, "shape_like": (2, 2, 5, 3)}, {"axes": (1, -1)}),
    },
    "tile": {"": ((2, 3), {"reps": (2, 1, 2)})},
    "repeat": {"": ((2, 3), {"repeats": 2, "axis": 1})},
    "flip": {"": (IMAGE, {"axis": 3})},
    "stack": {"": ({"first": (2, 3), "second": (2, 3)}, {"axis": 1})},
    "where": {"": ({"condition": ((2, 3), "integers 2"), "x": (2, 3), "y": (2, 3)}, {})},
    "take": {
        "": ({"table_weight": (5, 3), "indices": ((2, 2), "integers 7")}, {}),
        "axis": ({"a": (2, 5, 3), "indices": ((4,), "integers 5")}, {"axis": 1}),
    },
    "pick": {"": ({"data": (4, 5), "index": ((4,), "integers 5")}, {"axis": 1})},
    "one_hot": {"": ({"indices": ((2, 3), "integers 5")}, {"depth": 5, "on_value": 2.0, "off_value": -1.0})},
    "clip": {"": (IMAGE, {"a_min": -0.5, "a_max": 0.75})},
    "Cast": {"": (((2, 3), "positive"), {"dtype": "int32"})},
    "broadcast_axis": {"": ((2, 1, 3), {"axis": 1, "size": 4})},
    "broadcast_to": {"": ((2, 1, 3), {"shape": (0, 4, 0)})},
    "broadcast_like": {"": ({"lhs": (2, 1, 3), "rhs": (2, 4, 3)}, {})},
    "space_to_depth": {"": ((2, 3, 4, 6), {"block_size": 2})},
    "depth_to_space": {"": ((2, 8, 2, 3), {"block_size": 2})},
    "zeros_like": {"": ((2, 3), {})},
    "ones_like": {"": ((2, 3), {})},
}  # fmt: skip

BLOCKS: Calls = {
    "add_n": {"": ({"first": (2, 3), "second": (2, 3), "third": (2, 3)}, {})},
    "dot": {
        "": ({"lhs": (2, 3), "rhs": (3, 4)}, {}),
        "transposed": ({"lhs": (3, 2), "rhs": (4, 3)}, {"transpose_a": True, "transpose_b": True}),
        "3-D": ({"lhs": (2, 3, 4), "rhs": (4, 5)}, {}),
    },
    "batch_dot": {
        "": ({"lhs": (2, 3, 4), "rhs": (2, 4, 5)}, {}),
        "transposed": ({"lhs": (2, 4, 3), "rhs": (2, 5, 4)}, {"transpose_a": True, "transpose_b": True}),
    },
    "norm": {
        "": ((2, 3, 4), {"axis": 1}),
        "one": ((2, 3, 4), {"ord": 1, "axis": (1, 2), "keepdims": True}),
    },
    "argmax": {"": ((2, 5, 3), {"axis": 1}), "keepdims": ((2, 5, 3), {"axis": 1, "keepdims": True})},
    "argmin": {"": ((2, 5, 3), {"axis": 1})},
    "smooth_l1": {"": ((2, 5), {"scalar": 1.5})},
    "hard_sigmoid": {"": ((2, 5), {}), "alpha": ((2, 5), {"alpha": 0.3, "beta": 0.4})},
}

BINARY = ("elemwise_add", "elemwise_sub", "elemwise_mul", "elemwise_div", "_power", "_maximum", "_minimum")
BROADCAST = (
    "broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_div", "broadcast_power",
    "broadcast_maximum", "broadcast_minimum", "broadcast_mod", "broadcast_hypot",
)  # fmt: skip
COMPARE = (
    "broadcast_equal", "broadcast_not_equal", "broadcast_greater", "broadcast_greater_equal",
    "broadcast_lesser", "broadcast_lesser_equal", "broadcast_logical_and", "broadcast_logical_or",
)  # fmt: skip
SCALAR = (
    "_plus_scalar", "_minus_scalar", "_rminus_scalar", "_mul_scalar", "_div_scalar", "_rdiv_scalar",
    "_power_scalar", "_rpower_scalar", "_maximum_scalar", "_minimum_scalar", "_mod_scalar",
    "_greater_scalar", "_lesser_equal_scalar",
)  # fmt: skip
UNARY = {
    "normal": (
        "make_loss",
        "abs", "sign", "round", "rint", "ceil", "floor", "trunc", "fix", "square", "exp", "expm1", "sin",
        "cos", "tanh", "sigmoid", "relu", "softsign", "negative", "arctan", "sinh", "cosh", "arcsinh", "erf",
    ),
    "positive": ("log", "log10", "log2", "log1p", "sqrt", "rsqrt", "cbrt", "reciprocal", "tan"),
    "integers 3": ("logical_not",),
}  # fmt: skip
REDUCE = ("sum", "mean", "max", "min", "prod")
AXES = {
    "all": {},
    "axis": {"axis": 1},
    "keepdims": {"axis": (1, 2), "keepdims": True},
    "exclude": {"axis": 1, "exclude": True},
}

ALIASES = {
    "_Plus": "elemwise_add", "_plus": "elemwise_add", "_add": "elemwise_add", "_Minus": "elemwise_sub",
    "_sub": "elemwise_sub", "_Mul": "elemwise_mul", "_mul": "elemwise_mul", "_Div": "elemwise_div",
    "_div": "elemwise_div", "_Power": "_power", "_Maximum": "_maximum", "_Minimum": "_minimum",
    "_PlusScalar": "_plus_scalar", "_MinusScalar": "_minus_scalar", "_RMinusScalar": "_rminus_scalar",
    "_MulScalar": "_mul_scalar", "_DivScalar": "_div_scalar", "_RDivScalar": "_rdiv_scalar",
    "_PowerScalar": "_power_scalar", "_RPowerScalar": "_rpower_scalar", "_MaximumScalar": "_maximum_scalar",
    "_MinimumScalar": "_minimum_scalar", "ElementWiseSum": "add_n", "Softmax": "SoftmaxOutput",
    "split": "SliceChannel", "concat": "Concat", "reshape": "Reshape: 0 -1", "flatten": "Flatten",
    "swapaxes": "SwapAxis", "cast": "Cast", "pad": "Pad: edge", "stop_gradient": "BlockGrad",
    "_copy": "identity", "sum_axis": "sum: axis", "max_axis": "max: axis", "min_axis": "min: axis",
    "crop": "slice", "choose_element_0index": "pick", "reverse": "flip",
    "BatchNorm_v1": "BatchNorm: gamma",
    "Convolution_v1": "Convolution",
    "broadcast_plus": "broadcast_add", "broadcast_minus": "broadcast_sub",
    "broadcast_axes": "broadcast_axis",
}  # fmt: skip
"""Other names of operators, most of them older, and a case of the operator each of them means."""
