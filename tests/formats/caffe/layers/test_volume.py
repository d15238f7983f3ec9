"""C3D's layers over time, height and width, against their loops and PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from netweave.errors import ReadError, ShapeError, UnsupportedError
from netweave.graph import known_shape
from tests.formats.caffe.nets import inputs, layer, load, normal, run, stored

X = (2, 3, 5, 6, 7)
CONV = "num_output: 4 kernel_depth: 3 kernel_size: 2 temporal_stride: 2 stride: 1 temporal_pad: 1 pad: 1"


@pytest.mark.parametrize("message", ["convolution_param", "convolution3d_param"])
@pytest.mark.parametrize("kind", ["Convolution3D", "Deconvolution3D"])
def test_convolutions_are_those_of_pytorch(tmp_path, kind, message):
    graph = load(tmp_path, inputs(x=X) + layer(kind, f"{message} {{ {CONV} filter_group: 2 }}"))
    weight, bias = (torch.tensor(stored(graph)[f"{kind}/{i}"]) for i in (0, 1))
    apply = functional.conv3d if kind == "Convolution3D" else functional.conv_transpose3d
    expected = apply(torch.tensor(normal(*X)), weight, bias, stride=(2, 1, 1), padding=(1, 1, 1))
    np.testing.assert_allclose(run(graph, x=normal(*X))["y"], expected.numpy(), rtol=1e-4, atol=1e-5)


def pooled(x, kernel, stride, pad, average):
    """Pooling3DLayer::Forward_cpu of one plane over time."""
    sizes = [x.shape[0], *x.shape[1:]]
    pads = [0, pad, pad]
    counts = [-(-(s + 2 * p - k) // t) + 1 for s, p, k, t in zip(sizes, pads, kernel, stride, strict=True)]
    found = np.zeros(counts)
    for place in np.ndindex(*counts):
        starts = [i * t - p for i, t, p in zip(place, stride, pads, strict=True)]
        ends = [min(s + k, size + p) for s, k, size, p in zip(starts, kernel, sizes, pads, strict=True)]
        area = np.prod([end - start for start, end in zip(starts, ends, strict=True)])
        part = x[tuple(slice(max(s, 0), min(e, n)) for s, e, n in zip(starts, ends, sizes, strict=True))]
        found[place] = part.sum() / area if average else part.max()
    return found


@pytest.mark.parametrize(
    ("settings", "kernel", "stride", "pad", "average"),
    [
        ("kernel_depth: 1 kernel_size: 2 stride: 2", (1, 2, 2), (1, 2, 2), 0, False),
        ("kernel_depth: 2 kernel_size: 3 stride: 2 temporal_stride: 2", (2, 3, 3), (2, 2, 2), 0, False),
        (
            "pool: AVE kernel_depth: 2 kernel_size: 2 stride: 2 temporal_stride: 2",
            (2, 2, 2),
            (2, 2, 2),
            0,
            True,
        ),
        ("pool: AVE kernel_depth: 2 kernel_size: 3 stride: 2 pad: 1", (2, 3, 3), (1, 2, 2), 1, True),
    ],
)
@pytest.mark.parametrize("message", ["pooling_param", "pooling3d_param"])
def test_pooling_is_that_of_the_loops(tmp_path, message, settings, kernel, stride, pad, average):
    x = normal(*X)
    found = run(load(tmp_path, inputs(x=X) + layer("Pooling3D", f"{message} {{ {settings} }}")), x=x)["y"]
    for n, c in np.ndindex(*X[:2]):
        np.testing.assert_allclose(found[n, c], pooled(x[n, c], kernel, stride, pad, average), rtol=1e-5)


def test_a_net_of_version_1_0_says_its_sizes(tmp_path):
    text = (
        'layers { name: "data" type: VIDEO_DATA top: "data" top: "label" '
        'image_data_param { source: "list" batch_size: 2 crop_size: 8 new_length: 4 show_data: 0 } }\n'
        'layers { name: "conv" type: CONVOLUTION3D bottom: "data" top: "c" blobs_lr: 1 blobs_lr: 2 '
        "convolution_param { num_output: 4 kernel_size: 3 kernel_depth: 3 pad: 1 temporal_pad: 1 } }\n"
        'layers { name: "pool" type: POOLING3D bottom: "c" top: "p" '
        "pooling_param { pool: MAX kernel_size: 2 kernel_depth: 2 stride: 2 temporal_stride: 2 } }\n"
    )
    graph = load(tmp_path, text)
    assert [known_shape(value) for value in graph.inputs] == [(None, 3, 4, 8, 8), (None,)]
    assert known_shape(graph.outputs[0]) == (None, 4, 2, 4, 4)


@pytest.mark.parametrize(
    ("kind", "settings", "error", "message"),
    [
        (
            "Convolution3D",
            "convolution_param { num_output: 4 kernel_size: 3 }",
            ReadError,
            "no 'kernel_depth'",
        ),
        (
            "Convolution3D",
            "convolution_param { kernel_size: 3 kernel_depth: 3 }",
            ReadError,
            "'num_output' is 0",
        ),
        (
            "Convolution3D",
            "convolution_param { num_output: 4 kernel_depth: 3 kernel_size: 3 kernel_size: 5 }",
            ReadError,
            "'kernel_size' has 2 values, expected 1",
        ),
        (
            "Convolution3D",
            "convolution_param { num_output: 4 kernel_depth: 9 kernel_size: 3 }",
            ShapeError,
            "a window of 9 does not fit in 5",
        ),
        (
            "Pooling3D",
            "pooling_param { kernel_depth: 2 kernel_size: 2 pad: 1 }",
            ReadError,
            "'pad' requires 'pool' AVE",
        ),
        (
            "Pooling3D",
            "pooling_param { kernel_depth: 2 kernel_size: 2 temporal_stride: 0 }",
            ReadError,
            r"stride is \[0, 1, 1\], expected 1 or more",
        ),
        (
            "Pooling3D",
            "pooling_param { pool: STOCHASTIC kernel_depth: 2 kernel_size: 2 }",
            UnsupportedError,
            "STOCHASTIC is not supported",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path, kind, settings, error, message):
    with pytest.raises(error, match=message):
        load(tmp_path, inputs(x=X) + layer(kind, settings))


def test_time_is_needed(tmp_path):
    with pytest.raises(ShapeError, match=r"needs five axes .N, C, time, height, width., found 4"):
        load(tmp_path, inputs(x=(2, 3, 6, 7)) + layer("Pooling3D"))
