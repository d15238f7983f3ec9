"""Nets that compute the same in another way are equal, and one damage in them is one finding."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import netweave  # noqa: E402
from netweave.comparison import Status, Verdict, compare  # noqa: E402
from tests.comparison.torch_pairs import copied, drawn, effective, load  # noqa: E402


class Pyramid(nn.Module):
    """A feature pyramid, which brings coarse maps to the sizes of finer ones."""

    def __init__(self, by: str, mode: str = "nearest") -> None:
        super().__init__()
        self.down = nn.ModuleList(nn.Conv2d(8 if i else 3, 8, 3, stride=2, padding=1) for i in range(3))
        self.side = nn.ModuleList(nn.Conv2d(8, 8, 1) for _ in range(3))
        self.out = nn.Conv2d(8, 4, 3, padding=1)
        self.by, self.mode = by, mode

    def resized(self, x, like):
        corners = {} if self.mode == "nearest" else {"align_corners": False}
        if self.by == "scale":
            return functional.interpolate(x, scale_factor=2, mode=self.mode, **corners)
        size = like.size()[2:] if self.by == "size()" else (like.shape[2], like.shape[3])
        return functional.interpolate(x, size=size, mode=self.mode, **corners)

    def forward(self, x):
        fine = functional.relu(self.down[0](x))
        middle = functional.relu(self.down[1](fine))
        coarse = self.side[2](functional.relu(self.down[2](middle)))
        joined = self.resized(coarse, middle) + self.side[1](middle)
        return self.out(self.resized(joined, fine) + self.side[0](fine))


IMAGES = (1, 3, 64, 64)


@pytest.mark.parametrize("by", ["size()", "shape"])
def test_a_size_that_is_computed_is_no_layer(by):
    a, b = drawn(Pyramid("scale")), Pyramid(by)
    assert compare(load(a, x=IMAGES), load(copied(a, b), x=IMAGES)).verdict is Verdict.IDENTICAL
    with torch.no_grad():
        b.side[1].weight[0] *= 2
    (finding,) = effective(compare(load(a, x=IMAGES), load(b, x=IMAGES)))
    assert (finding.mismatch, finding.layer_b) == ("weights", "side.1")


@pytest.mark.parametrize("by", ["scale", "size()"])
def test_another_way_of_resizing_is_one_finding_each(by):
    a = drawn(Pyramid(by))
    b = copied(a, Pyramid("size()", "bilinear"))
    findings = effective(compare(load(a, x=IMAGES), load(b, x=IMAGES)))
    assert [finding.mismatch for finding in findings] == ["resize-mode"] * 2
    assert [edit.name for finding in findings for edit in finding.edits] == ["mode"] * 2
    assert findings[0].fix == "mode='nearest'"
    (finding, _) = effective(compare(load(b, x=IMAGES), load(a, x=IMAGES)))
    assert finding.fix == "mode='bilinear' align_corners=False"


class Mixer(nn.Module):
    """Dense layers over the channels of every position, written in one of several ways."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 4, stride=4)
        self.norm = nn.ModuleList(nn.LayerNorm(12) for _ in range(3))
        self.wide = nn.ModuleList(nn.Linear(12, 24) for _ in range(3))
        self.narrow = nn.ModuleList(nn.Linear(24, 12) for _ in range(3))
        self.way = way

    def dense(self, layer, x):
        n, h, w, c = x.shape
        if self.way == "four axes":
            return layer(x)
        rows = torch.matmul(x.reshape(-1, c), layer.weight.t())
        if self.way == "bias on rows":
            return (rows + layer.bias).reshape(n, h, w, -1)
        return rows.reshape(n, h, w, -1) + layer.bias

    def forward(self, x):
        x = self.stem(x).permute(0, 2, 3, 1)
        for norm, wide, narrow in zip(self.norm, self.wide, self.narrow, strict=True):
            x = x + self.dense(narrow, functional.gelu(self.dense(wide, norm(x))))
        return x


@pytest.mark.slow
@pytest.mark.parametrize("way", ["bias on rows", "bias on images"])
def test_a_dense_layer_on_four_axes_is_one_on_rows(way):
    a, b = drawn(Mixer("four axes")), Mixer(way)
    assert compare(load(a), load(copied(a, b))).verdict is Verdict.IDENTICAL
    with torch.no_grad():
        b.wide[1].weight[3] *= 2
    (finding,) = effective(compare(load(a), load(b)))
    assert (finding.mismatch, finding.layer_a) == ("weights", "wide.1")
    assert "'wide.1.weight'" in finding.fix


def test_a_changed_setting_behind_dense_layers_on_rows_is_found():
    a, b = drawn(Mixer("four axes")), Mixer("bias on rows")
    copied(a, b).norm[1].eps = 0.1
    (finding,) = effective(compare(load(a), load(b)))
    assert (finding.mismatch, finding.layer_b, finding.fix) == ("epsilon", "norm.1", "eps=1e-05")


class Slices(nn.Module):
    """Residual and dense paths, as in dual path networks: channels are cut in one of several ways."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 24, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Conv2d(24 + 4 * i, 20, 3, padding=1) for i in range(4))
        self.way = way

    def cut(self, x):
        if self.way == "split":
            return x.split([16, 4], 1)
        if self.way == "narrow":
            return x.narrow(1, 0, 16), x.narrow(1, 16, 4)
        return x[:, :16], x[:, 16:]

    def forward(self, x):
        x = functional.relu(self.stem(x))
        residual, dense = x[:, :16], x[:, 16:]
        for block in self.blocks:
            more, new = self.cut(functional.relu(block(torch.cat((residual, dense), 1))))
            residual, dense = residual + more, torch.cat((dense, new), 1)
        return torch.cat((residual, dense), 1)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["split", "narrow"])
def test_a_split_is_slices(way):
    a, b = drawn(Slices("slices")), Slices(way)
    assert compare(load(a), load(copied(a, b))).verdict is Verdict.IDENTICAL
    with torch.no_grad():
        b.blocks[2].weight[3, 2] *= 2
    (finding,) = effective(compare(load(a), load(b)))
    assert (finding.mismatch, finding.layer_b) == ("weights", "blocks.2")


class Windows(nn.Module):
    """Poolings of step one, where there is nothing to round."""

    def __init__(self, *, ceil: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.ceil = ceil

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.first(x)), 3, 1, 1, ceil_mode=self.ceil)
        return functional.avg_pool2d(functional.relu(self.second(x)), 3, 1, 1, ceil_mode=self.ceil)


def test_rounding_up_or_down_is_one_where_windows_go_by_one():
    a, b = drawn(Windows(ceil=True)), Windows(ceil=False)
    comparison = compare(load(a), load(copied(a, b)))
    assert comparison.verdict is Verdict.IDENTICAL
    assert all(group.status in {Status.EQUAL, Status.MAPPED} for group in comparison.groups)


class Upsampled(nn.Module):
    """Bilinear upsampling as a transposed convolution, cropped by its padding or by slices behind it."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(8, 8, 4, stride=2, padding=0 if way == "crop" else 1, bias=False)
        self.out = nn.Conv2d(8, 4, 3, padding=1)
        self.way = way

    def forward(self, x):
        y = self.up(functional.relu(self.down(x)))
        if self.way == "crop":
            y = y[:, :, 1:-1, 1:-1]
        return self.out(y)


@pytest.mark.parametrize(("right", "ported"), [("padding", "crop"), ("crop", "padding")])
def test_a_crop_behind_a_transposed_convolution_is_its_padding(right, ported):
    a, b = drawn(Upsampled(right)), Upsampled(ported)
    shapes = {"x": IMAGES}
    assert compare(load(a, **shapes), load(copied(a, b), **shapes)).verdict is Verdict.IDENTICAL


class Heads(nn.Module):
    """A detector's two results, returned in one of several shapes."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.boxes, self.classes = nn.Conv2d(8, 16, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.way = way

    def forward(self, x):
        x = functional.relu(self.stem(x))
        boxes, classes = (head(x).permute(0, 2, 3, 1) for head in (self.boxes, self.classes))
        if self.way == "maps":
            return boxes, classes
        if self.way.startswith("flat"):
            parts = boxes.flatten(1), classes.flatten(1)
        else:
            parts = boxes.reshape(x.shape[0], -1, 4), classes.reshape(x.shape[0], -1, 2)
        return torch.cat(parts, -1) if self.way.endswith("joined") else parts


SAME_OUTPUTS = [
    ("flat", "boxes", "with the values of (N, 4096) as (N, 1024, 4)"),
    ("boxes", "flat", "with the values of (N, 1024, 4) as (N, 4096)"),
    ("flat", "maps", "with the values of (N, 4096) as (N, 16, 16, 16)"),
    ("boxes", "boxes joined", "joined along axis 2"),
    ("flat joined", "flat", "which A joins along axis 1 as"),
    ("flat", "boxes joined", "joined along axis 2"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("right", "ported", "words"), SAME_OUTPUTS)
def test_outputs_that_are_cut_otherwise_are_equal_and_the_mapping_is_stated(right, ported, words):
    a, b = drawn(Heads(right)), Heads(ported)
    comparison = compare(load(a), load(copied(a, b)))
    assert comparison.verdict is Verdict.EQUAL, comparison.sentence
    assert words in comparison.sentence
    with torch.no_grad():
        b.boxes.weight[0] *= 2
    (finding,) = effective(compare(load(a), load(b)))
    assert (finding.mismatch, finding.layer_b) == ("weights", "boxes")


def test_the_stated_mapping_of_an_output_is_true():
    """What PyTorch itself returns, reshaped as the mapping says, is what the port returns."""
    a, b = drawn(Heads("flat")), Heads("boxes")
    comparison = compare(load(a), load(copied(a, b)))
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((2, 3, 32, 32), dtype=np.float32))
    with torch.no_grad():
        outputs = zip(comparison.outputs, a(x), b(x), strict=True)
    for mapping, of_a, of_b in outputs:
        np.testing.assert_array_equal(mapping.apply(of_a.numpy()), of_b.numpy())


def test_a_tensor_joined_in_another_order_says_so():
    class Swapped(Heads):
        def forward(self, x):
            boxes, classes = super().forward(x)
            return torch.cat((classes, boxes), 1)

    a = drawn(Heads("flat"))
    comparison = netweave.compare(load(a), load(copied(a, Swapped("flat"))))
    assert comparison.verdict is Verdict.EQUAL
    first, second = (str(value.name) for value in comparison.a.outputs)
    assert f"{second!r}, {first!r} of A joined along axis 1" in comparison.sentence
