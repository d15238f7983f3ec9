"""Max poolings that pad behind the image, against others that round up: the same windows or not."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import netweave  # noqa: E402
from netweave.comparison import Verdict, compare  # noqa: E402
from netweave.comparison.explain.known_mismatches.same_windows import (  # noqa: E402
    rounding_with_same_windows,
    take_same_windows,
)
from tests.comparison.torch_pairs import copied, drawn, effective, load  # noqa: E402
from tests.formats.onnx.models import model as onnx_model  # noqa: E402
from tests.formats.onnx.models import node  # noqa: E402


class Pooled(nn.Module):
    """Two convolutions with a pooling between them."""

    def __init__(self, pool: nn.Module) -> None:
        super().__init__()
        self.first, self.pool, self.last = nn.Conv2d(3, 6, 3), pool, nn.Conv2d(6, 4, 3)

    def forward(self, x):
        return self.last(self.pool(self.first(x)))


class PaddedBehind(nn.Module):
    """Darknet's rule: pad behind the image by the window's size less one, with minus infinity."""

    def __init__(self, size: int, stride: int) -> None:
        super().__init__()
        self.size, self.stride = size, stride

    def forward(self, x):
        x = nn.functional.pad(x, (0, self.size - 1, 0, self.size - 1), value=-float("inf"))
        return nn.functional.max_pool2d(x, self.size, self.stride)


def darknet(tmp_path, size, stride):
    """A net of Darknet with one pooling, which pads by the window's size less one."""
    path = tmp_path / "net.cfg"
    path.write_text(
        "[net]\nheight=32\nwidth=32\nchannels=3\n\n"
        "[convolutional]\nfilters=6\nsize=3\nstride=1\npad=1\nactivation=linear\n\n"
        f"[maxpool]\nsize={size}\nstride={stride}\n\n"
        "[convolutional]\nfilters=4\nsize=3\nstride=1\npad=1\nactivation=linear\n"
    )
    return netweave.load(path)


class Port(nn.Module):
    """A port of that."""

    def __init__(self, **settings) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 4, 3, padding=1)
        self.pool = nn.MaxPool2d(**settings)

    def forward(self, x):
        return self.last(self.pool(self.first(x)))


def test_rounding_up_is_what_darknet_s_padding_does(tmp_path):
    found = compare(darknet(tmp_path, 2, 2), load(Port(kernel_size=2, ceil_mode=True)))
    assert found.same_structure
    assert not found.findings  # nothing differs at any size, so not even without an effect


def test_a_port_that_rounds_down_is_told_to_round_up(tmp_path):
    found = compare(darknet(tmp_path, 2, 2), load(Port(kernel_size=2)))
    (finding,) = effective(found)
    assert (finding.mismatch, finding.fix) == ("pool-rounding", "ceil_mode=True")
    assert "padding is 0 before and 1 after in A, which makes as many windows as rounding up" in finding.cause


@pytest.mark.parametrize("size", [32, 33])
def test_the_windows_that_pytorch_takes_are_these(size):
    """The oracle of both tests above: rounding up and padding behind are the same for 2 by 2, not for 3."""
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((1, 2, size, size)).astype(np.float32))
    assert torch.equal(nn.MaxPool2d(2, ceil_mode=True)(x), PaddedBehind(2, 2)(x))
    are_alike = nn.MaxPool2d(3, 2, ceil_mode=True)(x).shape == PaddedBehind(3, 2)(x).shape
    assert are_alike == (size % 2 == 0)


def test_windows_of_another_number_stay_a_difference_of_padding():
    """Behind an image of odd size, padding by two makes a window more than rounding up."""
    right = drawn(Pooled(PaddedBehind(3, 2)))
    found = compare(load(right), load(copied(right, Pooled(nn.MaxPool2d(3, 2, ceil_mode=True)))))
    assert found.verdict is Verdict.DIFFERENT
    assert "pool-rounding" not in {finding.mismatch for finding in effective(found)}


@pytest.mark.slow
def test_scaling_at_the_input_is_one_layer_more_and_moves_nothing_else():
    """Two branches of the same layers behind it are not mixed up."""

    class Net(nn.Module):
        def __init__(self, *, scaled: bool) -> None:
            super().__init__()
            self.scaled, self.first = scaled, nn.Conv2d(3, 8, 3, padding=1)
            layers = [[nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 1), nn.ReLU()] for _ in "ab"]
            self.one, self.other = (nn.Sequential(*row) for row in layers)

        def forward(self, x):
            x = torch.relu(self.first(x / 256 - 0.5 if self.scaled else x))
            return torch.cat((self.one(x), self.other(x)), 1)

    found = compare(load(drawn(Net(scaled=False))), load(drawn(Net(scaled=True), seed=5)))
    missing = [finding for finding in found.findings if finding.mismatch == "missing-layer"]
    assert [finding.layer_a for finding in missing] == [""]


def test_a_format_without_rounding_is_told_to_pad(tmp_path):
    right = darknet(tmp_path, 2, 2)
    (tmp_path / "port").mkdir()
    text = (tmp_path / "net.cfg").read_text().replace("[maxpool]\n", "[maxpool]\npadding=0\n")
    (tmp_path / "port" / "net.cfg").write_text(text)
    found = compare(right, netweave.load(tmp_path / "port" / "net.cfg"))
    assert "ceil" not in "".join(finding.fix for finding in found.findings)
    assert any("padding" in finding.fix for finding in found.findings)


def test_another_rounding_is_proposed_only_where_a_pads():
    """Else it is A's rounding that B needs, which is told as that."""
    a = {"kernel_shape": (2, 2), "strides": (2, 2), "pads": (0, 0, 0, 0), "rounding": "ceil"}
    behind = {**a, "pads": (0, 0, 1, 1), "rounding": "floor"}
    floor = {**a, "rounding": "floor"}
    assert take_same_windows(a, behind)
    assert not take_same_windows(a, floor)
    assert rounding_with_same_windows(behind, floor) == "ceil"
    assert rounding_with_same_windows(a, {**behind, "pads": (0, 0, 1, 0)}) == ""


def test_what_a_transposed_convolution_adds_at_its_end_is_not_cut_there(tmp_path):
    """Padding of 1 with one row more at the end is padding of 1 at the begin alone."""
    weight = np.random.default_rng(0).standard_normal((3, 4, 3, 3)).astype(np.float32)

    def net(**window):
        more = node("ConvTranspose", "x w", "y", name="up", strides=[2, 2], **window)
        path = tmp_path / f"{len(window)}.onnx"
        proto = onnx_model([more], {"x": ["N", 3, 7, 9]}, ["y"], {"w": weight})
        path.write_bytes(proto.SerializeToString())
        return netweave.load(path)

    added = net(pads=[1, 1, 1, 1], output_padding=[1, 1])
    cut = net(pads=[1, 1, 0, 0])
    for a, b in ((added, cut), (cut, added)):
        found = compare(a, b)
        assert (found.verdict, found.findings) == (Verdict.IDENTICAL, ())
    plain = net(pads=[1, 1, 1, 1], group=1, dilations=[1, 1])
    (finding,) = compare(added, plain).findings
    assert finding.cause == "output_padding is 1 in A and 0 in B"
