"""Positions of arguments in calls that make layers, since most ports give sizes by position.

Signatures of PyTorch 2 (torch.nn, torch.nn.functional), Chainer 7 and Keras 3, up to the last argument that a
fix may change; what is left out can be given by name only.
"""

from __future__ import annotations

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
