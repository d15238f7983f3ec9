"""Nets that cut a map to the size of another one, as those for segmentation do, at sizes nobody said."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.comparison import Status, Verdict
from netweave.comparison.execution import memory_budget
from netweave.files.sandbox import has_guard
from netweave.formats.chainer.shim.recorder import ImageSize

PROTOTXT = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 50 dim: 50 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
        convolution_param { num_output: 4 kernel_size: 3 pad: 9 } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool"
        pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "fc" type: "Convolution" bottom: "pool" top: "fc"
        convolution_param { num_output: 5 kernel_size: 3 } }
layer { name: "up" type: "Deconvolution" bottom: "fc" top: "up"
        convolution_param { num_output: 5 bias_term: false kernel_size: 4 stride: 2 } }
layer { name: "side" type: "Convolution" bottom: "conv" top: "side"
        convolution_param { num_output: 5 kernel_size: 1 } }
layer { name: "cut" type: "Crop" bottom: "side" bottom: "up" top: "cut" crop_param { axis: 2 offset: 1 } }
layer { name: "fuse" type: "Eltwise" bottom: "up" bottom: "cut" top: "fuse" }
layer { name: "score" type: "Crop" bottom: "fuse" bottom: "data" top: "score"
        crop_param { axis: 2 offset: 5 } }
"""

CODE = """
import chainer
import chainer.functions as F
import chainer.links as L


class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv = L.Convolution2D(3, 4, 3, pad=9)
            self.fc = L.Convolution2D(4, 5, 3)
            self.up = L.Deconvolution2D(5, 5, 4, 2, nobias=True)
            self.side = L.Convolution2D(4, 5, 1)

    def __call__(self, x):
        conv = F.relu(self.conv(x))
        up = self.up(self.fc(F.max_pooling_2d(conv, 2, stride=2)))
        side = self.side(conv)[:, :, OFFSET:OFFSET + up.shape[2], 1:1 + up.shape[3]]
        fuse = up + side
        return fuse[:, :, 5:5 + x.shape[2], 5:x.shape[3] + 5]
"""

SHAPE = {"data": (1, 3, 20, 24)}


@pytest.fixture
def files(tmp_path):
    original, port = tmp_path / "net.prototxt", tmp_path / "port.py"
    original.write_text(PROTOTXT)
    return original, port


@pytest.mark.slow
def test_a_port_that_cuts_its_maps_is_compared_at_the_original_s_sizes_and_at_others(files):
    original, port = files
    port.write_text(CODE.replace("OFFSET", "1"))
    found = netweave.compare(original, port, input_shapes=SHAPE)
    assert found.verdict is Verdict.STRUCTURE
    assert found.findings == ()
    assert found.probes == ("data 3x3x25x36", "data 3x3x20x24")
    assert any("traced with Nx3x20x24" in note for note in found.b.notes)


@pytest.mark.slow
def test_a_map_that_is_cut_elsewhere_is_found(files):
    original, port = files
    port.write_text(CODE.replace("OFFSET", "2"))
    found = netweave.compare(original, port, input_shapes=SHAPE)
    assert found.verdict is Verdict.DIFFERENT
    (culprit,) = (group for group in found.groups if group.status is Status.DIFFERENT)
    assert culprit.layers_a == ("cut",)


@pytest.mark.slow
def test_cuts_follow_the_image_as_numpy_s_do(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(
        "import chainer\nimport chainer.functions as F\n\n\n"
        "class Net(chainer.Chain):\n    def __call__(self, x):\n"
        "        half = F.max_pooling_2d(x, 2, stride=2)\n"
        "        return x[:, :, 1:half.shape[2] + 1, half.shape[3] - 1:-1]"
        ", x[:, :, :x.shape[2] - 3, 2:x.shape[3] - 1], x[:, :, :half.shape[2] // 2]\n"
    )
    net = netweave.load(path, input_shapes={"x": (1, 2, 8, 8)})
    x = np.random.default_rng(0).standard_normal((2, 2, 12, 8)).astype(np.float32)
    moved = memory_budget.resized(net, {"x": x.shape})
    assert moved is not None
    first, second, third = netweave.run(moved, {"x": x}).values()
    np.testing.assert_array_equal(first, x[:, :, 1:7, 3:-1])
    np.testing.assert_array_equal(second, x[:, :, :9, 2:7])
    np.testing.assert_array_equal(third, x[:, :, :2])  # a quarter is a number, that of the traced size


def test_what_is_added_to_a_size_is_kept_and_all_else_is_a_number():
    size = ImageSize.of(7, None, 2)
    for made, number, addend in ((3 + size, 10, 3), (size - 2, 5, -2), (size + np.int64(4) - 1, 10, 3)):
        assert isinstance(made, ImageSize)
        assert (int(made), made.addend, made.axis) == (number, addend, 2)
    for made, number in ((size * 2, 14), (size // 2, 3), (9 - size, 2), (size + size, 14), (-size, -7)):
        assert not isinstance(made, ImageSize)
        assert made == number


@pytest.mark.parametrize("channels", ["3", "None"])
def test_likely_sizes_may_have_their_channels_last(tmp_path, channels):
    """Chainer's are first; a convolution that leaves them to its first call would take any."""
    path = tmp_path / "net.py"
    path.write_text(
        "import chainer\nimport chainer.links as L\n\n\nclass Net(chainer.Chain):\n"
        "    def __init__(self):\n        super().__init__()\n        with self.init_scope():\n"
        f"            self.conv = L.Convolution2D({channels}, 4, 3)\n\n"
        "    def __call__(self, x):\n        return self.conv(x)\n"
    )
    for likely in ((1, 3, 13, 21), (1, 13, 21, 3)):
        net = netweave.load(path, likely_shapes=[likely], trust=not has_guard())
        assert net.declared["x"][1:] == (3, 13, 21)
    assert netweave.load(path, likely_shapes=[(1, 10)], trust=not has_guard()).declared["x"][1:] == (
        3,
        224,
        224,
    )
