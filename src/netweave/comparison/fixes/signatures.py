"""Arguments of calls that make layers: their positions, what each is given, and how one is changed or added.

Signatures of PyTorch 2 (torch.nn, torch.nn.functional), Chainer 7 and Keras 3, up to the last argument that a
fix may change; what is left out can be given by name only.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from netweave.comparison.fixes.text import Replacement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.comparison import Edit
    from netweave.comparison.fixes.python_source import Places

_CONV = "in_channels out_channels kernel_size stride padding dilation groups bias"
_DECONV = "in_channels out_channels kernel_size stride padding output_padding groups bias dilation"
_MAX = "kernel_size stride padding dilation return_indices ceil_mode"
_AVERAGE = "kernel_size stride padding ceil_mode count_include_pad divisor_override"
_CHAINER_CONV = "in_channels out_channels ksize stride pad nobias initialW initial_bias dilate groups"
_KERAS_CONV = "filters kernel_size strides padding data_format dilation_rate groups"
_KERAS_POOL = "pool_size strides padding data_format"

_ROWS: dict[str, str] = {
    **{f"Conv{n}d": _CONV for n in "123"},
    **{f"ConvTranspose{n}d": _DECONV for n in "123"},
    **{f"MaxPool{n}d": _MAX for n in "123"},
    **{f"AvgPool{n}d": _AVERAGE for n in "123"},
    **{f"BatchNorm{n}d": "num_features eps momentum affine" for n in "123"},
    **{f"InstanceNorm{n}d": "num_features eps momentum affine" for n in "123"},
    "LayerNorm": "normalized_shape eps elementwise_affine",
    "GroupNorm": "num_groups num_channels eps affine",
    "LocalResponseNorm": "size alpha beta k",
    "Linear": "in_features out_features bias | in_size out_size nobias",
    "ReLU": "inplace | max_value negative_slope threshold",
    "ReLU6": "inplace",
    "LeakyReLU": "negative_slope inplace",
    "PReLU": "num_parameters init | shape init",
    "ELU": "alpha inplace",
    "Softmax": "dim | axis",
    "LogSoftmax": "dim",
    "Upsample": "size scale_factor mode align_corners",
    "interpolate": "input size scale_factor mode align_corners",
    **{f"conv{n}d": "input weight bias stride padding dilation groups" for n in "123"},
    **{f"max_pool{n}d": "input kernel_size stride padding dilation ceil_mode return_indices" for n in "123"},
    **{
        f"avg_pool{n}d": "input kernel_size stride padding ceil_mode count_include_pad divisor_override"
        for n in "123"
    },
    "batch_norm": "input running_mean running_var weight bias training momentum eps",
    "layer_norm": "input normalized_shape weight bias eps",
    "local_response_norm": "input size alpha beta k",
    "leaky_relu": "input negative_slope inplace | x slope",
    "elu": "input alpha inplace",
    "softmax": "input dim | x axis",
    "log_softmax": "input dim | x axis",
    "cat": "tensors dim",
    "Convolution2D": _CHAINER_CONV,
    "DilatedConvolution2D": "in_channels out_channels ksize stride pad dilate nobias",
    "Deconvolution2D": "in_channels out_channels ksize stride pad nobias outsize",
    "DepthwiseConvolution2D": "in_channels channel_multiplier ksize stride pad nobias",
    "max_pooling_2d": "x ksize stride pad cover_all return_indices",
    "average_pooling_2d": "x ksize stride pad",
    "clipped_relu": "x z",
    "MaxPooling2D": _KERAS_POOL,
    "AveragePooling2D": _KERAS_POOL,
    "local_response_normalization": "x n k alpha beta",
    "BatchNormalization": "size decay eps | axis momentum epsilon",
    "LayerNormalization": "size eps | axis epsilon",
    "concat": "xs axis",
    "Conv1D": _KERAS_CONV,
    "Conv2D": _KERAS_CONV,
    "Conv3D": _KERAS_CONV,
    "Conv2DTranspose": "filters kernel_size strides padding data_format",
    "SeparableConv2D": "filters kernel_size strides padding data_format dilation_rate",
    "DepthwiseConv2D": "kernel_size strides padding depth_multiplier data_format dilation_rate",
    "UpSampling2D": "size data_format interpolation",
    "ZeroPadding2D": "padding data_format",
    "ZeroPad2d": "padding",
    "Dense": "units activation use_bias",
}

BY_NAME: dict[str, frozenset[str]] = {
    **{name: frozenset({"use_bias"}) for name in ("Conv1D", "Conv2D", "Conv3D")},
    **{name: frozenset({"use_bias"}) for name in ("SeparableConv2D", "DepthwiseConv2D")},
    "Conv2DTranspose": frozenset({"dilation_rate", "use_bias"}),
}
"""Arguments that are given by name."""

FORMER_NAMES: dict[tuple[str, str], str] = {("LeakyReLU", "negative_slope"): "alpha"}
"""What an argument was called before, by the call and its name today; Keras 3 takes either."""

_POSITIONS = {name: tuple(tuple(row.split()) for row in rows.split("|")) for name, rows in _ROWS.items()}
"""Names of the arguments of a call, in order, by the last part of what is called.

Calls of two frameworks that share a name are told apart by the argument that is asked for.
"""


def position(callee: str, name: str) -> int | None:
    """Return where an argument of a call stands, from 0; None if it does not stand there without its name.

    >>> position("leaky_relu", "slope"), position("leaky_relu", "inplace"), position("leaky_relu", "eps")
    (1, 2, None)
    """
    return next((row.index(name) for row in _POSITIONS.get(callee, ()) if name in row), None)


def takes(callee: str, name: str) -> bool:
    """Return whether a call is known to take an argument."""
    return position(callee, name) is not None or name in BY_NAME.get(callee, frozenset())


def takes_argument(call: ast.Call, name: str) -> bool:
    """Return whether a call is known to take an argument that may be written there.

    What stands in a list or dictionary that is unpacked is not known: it may be the argument.
    """
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return False
    is_unpacked = any(keyword.arg is None for keyword in call.keywords)
    return argument_of(call, name) is not None or (not is_unpacked and takes(callee(call), name))


def callee(call: ast.Call) -> str:
    """Return the last part of what is called: ``Conv2d`` of ``nn.Conv2d(...)``."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def argument_of(call: ast.Call, name: str) -> ast.expr | None:
    """Return what an argument is given, by name or by position; None if it is not given."""
    names = {name, FORMER_NAMES.get((callee(call), name), name)}
    named = next((keyword.value for keyword in call.keywords if keyword.arg in names), None)
    place = position(callee(call), name)
    if named is not None or place is None:
        return named
    return call.args[place] if place < len(call.args) else None


def argument_changes(call: ast.Call, edits: Sequence[Edit], places: Places) -> list[Replacement]:
    """Return the changes that give a call other arguments; those that it is not given yet go to the end."""
    given = [(edit, argument_of(call, edit.name)) for edit in edits]
    changes = [Replacement(*places.of(value), edit.value) for edit, value in given if value is not None]
    added = [f"{edit.name}={edit.value}" for edit, value in given if value is None]
    return [*changes, *(added_arguments(call, added, places) if added else [])]


def added_arguments(call: ast.Call, words: Sequence[str], places: Places) -> list[Replacement]:
    """Return the changes that write arguments behind the others, on a line of their own if those have it."""
    end = places.of(call)[1] - 1
    given: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    last = max(map(places.of, given), key=lambda ends: ends[1], default=None)
    if last is None:
        return [Replacement(end, end, ", ".join(words))]
    # brackets around the last argument, a comma, comments
    rest = re.sub(r"#[^\n]*", lambda comment: " " * len(comment[0]), places.between(last[1], end))
    stop = last[1] + len(rest.rstrip())
    has_comma = rest.rstrip().endswith(",")
    if "\n" not in places.between(stop, end):
        return [Replacement(stop, stop, f"{' ' if has_comma else ', '}{', '.join(words)}")]
    own_line = places.line_start(end)
    indent = re.match(r"\s*", places.between(places.line_start(last[0]), last[0]))
    before = indent[0] if indent is not None else ""
    line_end = "\r\n" if places.between(own_line - 2, own_line) == "\r\n" else "\n"
    lines = f",{line_end}".join(f"{before}{word}" for word in words)
    behind = Replacement(own_line, own_line, f"{lines}{',' if has_comma else ''}{line_end}")
    return [behind] if has_comma else [Replacement(stop, stop, ","), behind]
