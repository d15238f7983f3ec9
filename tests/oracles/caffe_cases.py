"""The layers of Caffe in small: what each is called with, and on what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

IMAGE = (2, 4, 9, 8)
"""Sizes of an input where nothing else is said: no two alike, none a multiple of a window."""

MANY_CHANNELS = (2, 7, 6, 5)

Shape = tuple[int, ...]
Blob = tuple[Shape, str]


@dataclass
class Case:
    """A net of one layer.

    Attributes:
        name: Unique; the layer's type and what is special about its settings.
        type: The layer's type.
        settings: Its settings as text.
        bottoms: Sizes of its inputs.
        blobs: Sizes and role (see ``recipe.weight``) of its arrays.
        num_tops: Number of its outputs.
    """

    name: str
    type: str
    settings: str
    bottoms: tuple[Shape, ...]
    blobs: tuple[Blob, ...] = ()
    num_tops: int = 1


def cases() -> Iterator[Case]:
    """Yield all cases."""
    for (kind, param), texts in NO_ARRAYS.items():
        for text in texts:
            yield _case(kind, param, text, (MANY_CHANNELS if kind == "LRN" else IMAGE,))
    for (kind, param), rows in WITH_ARRAYS.items():
        for (text, shape), blobs in rows.items():
            yield _case(kind, param, text, (shape,), blobs)
    for (kind, param), nets in SEVERAL.items():
        for text, (bottoms, num_tops) in nets.items():
            yield _case(kind, param, text, bottoms, (), num_tops)


def _case(
    kind: str,
    param: str,
    text: str,
    bottoms: tuple[Shape, ...],
    blobs: tuple[Blob, ...] = (),
    num_tops: int = 1,
) -> Case:
    settings = f"{param} {{ {text} }}" if text else ""
    sizes = " and ".join("x".join(map(str, shape)) for shape in bottoms)
    return Case(f"{kind} of {sizes}: {text}", kind, settings, bottoms, blobs, num_tops)


def _filters(*shape: int, bias: int = 0) -> tuple[Blob, ...]:
    return ((shape, "filter"), ((bias,), "bias")) if bias else ((shape, "filter"),)


CONVOLUTION = {
    "num_output: 5 kernel_size: 3": _filters(5, 4, 3, 3, bias=5),
    "num_output: 5 kernel_size: 3 pad: 1 stride: 2 bias_term: false": _filters(5, 4, 3, 3),
    "num_output: 6 kernel_h: 3 kernel_w: 2 pad_h: 2 pad_w: 1 stride_h: 2 stride_w: 3": _filters(
        6, 4, 3, 2, bias=6
    ),
    "num_output: 6 kernel_size: 3 kernel_size: 1 pad: 1 pad: 0 stride: 1 stride: 2": _filters(
        6, 4, 3, 1, bias=6
    ),
    "num_output: 6 kernel_size: 3 group: 2": _filters(6, 2, 3, 3, bias=6),
    "num_output: 4 kernel_size: 3 group: 4 pad: 1": _filters(4, 1, 3, 3, bias=4),
    "num_output: 5 kernel_size: 3 dilation: 2 pad: 2": _filters(5, 4, 3, 3, bias=5),
    "num_output: 5 kernel_size: 3 dilation: 2 dilation: 1": _filters(5, 4, 3, 3, bias=5),
}

DECONVOLUTION = {
    "num_output: 5 kernel_size: 3": _filters(4, 5, 3, 3, bias=5),
    "num_output: 3 kernel_size: 4 stride: 2 pad: 1": _filters(4, 3, 4, 4, bias=3),
    "num_output: 3 kernel_h: 3 kernel_w: 4 stride_h: 2 stride_w: 3 pad_h: 1 pad_w: 0": _filters(
        4, 3, 3, 4, bias=3
    ),
    "num_output: 4 kernel_size: 4 stride: 2 pad: 1 group: 4 bias_term: false": _filters(4, 1, 4, 4),
    "num_output: 6 kernel_size: 3 group: 2": _filters(4, 3, 3, 3, bias=6),
}

POOLING = (
    "kernel_size: 3 stride: 2",
    "kernel_size: 3 stride: 2 pool: AVE",
    "kernel_size: 3 stride: 2 pad: 1",
    "kernel_size: 3 stride: 2 pad: 1 pool: AVE",
    "kernel_size: 2 stride: 2 pad: 1",
    "kernel_size: 2 stride: 2 pad: 1 pool: AVE",
    "kernel_size: 3 stride: 3 pad: 2 pool: AVE",
    "kernel_size: 5 stride: 3 pad: 1",
    "kernel_size: 5 stride: 3 pad: 1 pool: AVE",
    "kernel_h: 3 kernel_w: 2 stride_h: 2 stride_w: 3 pad_h: 1 pad_w: 0",
    "kernel_h: 3 kernel_w: 2 stride_h: 2 stride_w: 3 pad_h: 0 pad_w: 1 pool: AVE",
    "kernel_size: 2 stride: 3",
    "kernel_size: 3 stride: 1 pad: 1",
    "global_pooling: true pool: MAX",
    "global_pooling: true pool: AVE",
)

LRN = (
    "local_size: 5 alpha: 0.5 beta: 0.75",
    "local_size: 3 alpha: 0.2 beta: 0.6 k: 2",
    "local_size: 3 alpha: 0.5 beta: 0.75 norm_region: WITHIN_CHANNEL",
    "local_size: 5 alpha: 0.3 beta: 0.5 norm_region: WITHIN_CHANNEL",
)

NO_ARRAYS = {
    ("Pooling", "pooling_param"): POOLING,
    ("LRN", "lrn_param"): LRN,
    ("ReLU", "relu_param"): ("", "negative_slope: 0.1"),
    ("ELU", "elu_param"): ("", "alpha: 0.5"),
    ("Sigmoid", ""): ("",),
    ("TanH", ""): ("",),
    ("AbsVal", ""): ("",),
    ("BNLL", ""): ("",),
    ("Power", "power_param"): ("", "power: 2 scale: 0.5 shift: 1", "scale: -2 shift: 0.5"),
    ("Exp", "exp_param"): ("", "base: 2 scale: 0.5 shift: 1"),
    ("Softmax", "softmax_param"): ("", "axis: 2", "axis: -1"),
    ("Flatten", "flatten_param"): ("", "axis: 2", "axis: 1 end_axis: 2"),
    ("Reshape", "reshape_param"): (
        "shape { dim: 0 dim: -1 }",
        "shape { dim: 0 dim: 2 dim: -1 dim: 0 }",
        "axis: 1 num_axes: 2 shape { dim: 6 dim: -1 }",
        "axis: -1 shape { dim: 2 dim: 4 }",
    ),
    ("MVN", "mvn_param"): ("", "across_channels: true", "normalize_variance: false", "eps: 0.5"),
    ("Dropout", "dropout_param"): ("dropout_ratio: 0.3",),
    ("Permute", "permute_param"): (
        "order: 0 order: 2 order: 3 order: 1",
        "order: 0 order: 1 order: 3 order: 2",
        "order: 2",
    ),
}

WITH_ARRAYS: dict[tuple[str, str], dict[tuple[str, Shape], tuple[Blob, ...]]] = {
    ("Convolution", "convolution_param"): {(text, IMAGE): blobs for text, blobs in CONVOLUTION.items()},
    ("Deconvolution", "convolution_param"): {(text, IMAGE): blobs for text, blobs in DECONVOLUTION.items()},
    ("InnerProduct", "inner_product_param"): {
        ("num_output: 5", IMAGE): (((5, 288), "matrix"), ((5,), "bias")),
        ("num_output: 5 bias_term: false", (3, 7)): (((5, 7), "matrix"),),
        ("num_output: 5 axis: 2", (2, 3, 7)): (((5, 7), "matrix"), ((5,), "bias")),
        ("num_output: 5 transpose: true", (3, 7)): (((7, 5), "matrix"), ((5,), "bias")),
    },
    ("BatchNorm", "batch_norm_param"): {
        ("", IMAGE): (((4,), "mean"), ((4,), "variance"), ((1,), "scale")),
        ("eps: 0.1", IMAGE): (((4,), "mean"), ((4,), "variance"), ((1,), "scale")),
        ("use_global_stats: true", (3, 4)): (((4,), "mean"), ((4,), "variance"), ((1,), "scale")),
    },
    ("Scale", "scale_param"): {
        ("", IMAGE): (((4,), "scale"),),
        ("bias_term: true", IMAGE): (((4,), "scale"), ((4,), "bias")),
        ("axis: 2 bias_term: true", IMAGE): (((9,), "scale"), ((9,), "bias")),
        ("axis: 1 num_axes: 3", IMAGE): (((4, 9, 8), "scale"),),
    },
    ("Normalize", "norm_param"): {
        ("", IMAGE): (((1,), "scale"),),
        ("across_spatial: false channel_shared: false", IMAGE): (((4,), "scale"),),
        ("across_spatial: true channel_shared: false", IMAGE): (((4,), "scale"),),
        ("across_spatial: false channel_shared: true eps: 0.5", IMAGE): (((1,), "scale"),),
    },
    ("PReLU", "prelu_param"): {
        ("", IMAGE): (((4,), "slope"),),
        ("channel_shared: true", IMAGE): (((), "slope"),),
    },
}

PRIORS = (
    # OpenCV clips where the file does not say
    "min_size: 7 variance: 0.1 clip: false",
    "min_size: 7 max_size: 12 aspect_ratio: 2 aspect_ratio: 3 variance: 0.1 variance: 0.1 variance: 0.2 "
    "variance: 0.3 clip: false",
    "min_size: 7 max_size: 12 aspect_ratio: 2 flip: false clip: true variance: 0.3",
    "min_size: 7 min_size: 9 max_size: 8 max_size: 30 aspect_ratio: 2 aspect_ratio: 1 aspect_ratio: 2 "
    "variance: 0.1 clip: false",
    "min_size: 20 aspect_ratio: 0.5 step: 8 offset: 0.25 variance: 0.1 clip: false",
    "min_size: 20 step_h: 7 step_w: 9 variance: 0.1 clip: false",
    "min_size: 7.9 max_size: 12.6 variance: 0.1 clip: false",
)

SEVERAL: dict[tuple[str, str], dict[str, tuple[tuple[Shape, ...], int]]] = {
    ("Eltwise", "eltwise_param"): {
        "": ((IMAGE, IMAGE), 1),
        "operation: SUM coeff: 1 coeff: -0.5 coeff: 2": ((IMAGE, IMAGE, IMAGE), 1),
        "operation: PROD": ((IMAGE, IMAGE), 1),
        "operation: MAX": ((IMAGE, IMAGE, IMAGE), 1),
    },
    ("Concat", "concat_param"): {
        "": ((IMAGE, (2, 3, 9, 8)), 1),
        "axis: 2": ((IMAGE, (2, 4, 3, 8)), 1),
        "concat_dim: 1": ((IMAGE, (2, 1, 9, 8), IMAGE), 1),
        "axis: -1": ((IMAGE, (2, 4, 9, 3)), 1),
    },
    ("Slice", "slice_param"): {
        "": ((IMAGE,), 2),
        "slice_point: 1 slice_point: 3": ((IMAGE,), 3),
        "axis: 2 slice_point: 4": ((IMAGE,), 2),
        "axis: -1": ((IMAGE,), 4),
    },
    ("PriorBox", "prior_box_param"): dict.fromkeys(PRIORS, (((1, 4, 5, 6), (1, 3, 60, 80)), 1)),
    ("Crop", "crop_param"): {
        "axis: 2 offset: 1": ((IMAGE, (2, 4, 5, 6)), 1),
        "axis: 2 offset: 2 offset: 1": ((IMAGE, (2, 4, 5, 6)), 1),
        "axis: 1 offset: 1 offset: 0 offset: 2": ((IMAGE, (2, 2, 5, 6)), 1),
    },
}
