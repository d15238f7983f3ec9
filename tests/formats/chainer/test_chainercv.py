"""ChainerCV's blocks and nets are read without it, and compute what they compute on Chainer 7.8.1."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave import errors
from tests.oracles.chainer_models import GOLDEN, VISION, VISION_SIZES

HEADS = "import chainer\nfrom chainercv.links import {}\n\n\ndef make():\n    return {}\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", VISION_SIZES)
def test_blocks_compute_what_they_compute_on_chainer(name):
    golden = np.load(GOLDEN / f"{name}-made.npz")
    shapes = {"x": VISION_SIZES[name]}
    net = netweave.load(f"{VISION}:{name}", GOLDEN / f"{name}.npz", trust=True, input_shapes=shapes)
    found = list(netweave.run(net, {"x": golden["x"]}).values())
    assert len(golden.files) == 1 + len(found)
    for number, made in enumerate(found):
        wanted = golden[f"y{number}"]
        rms = float(np.sqrt(np.mean(np.square(wanted))))
        assert made.shape == wanted.shape, number
        np.testing.assert_allclose(made, wanted, atol=1e-5 * rms, err_msg=str(number))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "size", "shapes"),
    [
        ("SSD300(n_fg_class=20)", 300, [(8732, 4), (8732, 21)]),
        ("YOLOv2(pretrained_model='voc0712')", 416, [(845, 4), (845,), (845, 20)]),
        ("YOLOv3(n_fg_class=20)", 416, [(10647, 4), (10647,), (10647, 20)]),
        ("SEResNeXt50()", 64, [(1000,)]),
        ("SegNetBasic(n_class=11)", 45, [(11, 46, 46)]),
    ],
)
def test_nets_have_the_sizes_of_their_papers(made, size, shapes, tmp_path):
    (tmp_path / "net.py").write_text(HEADS.format(made.partition("(")[0], made))
    net = netweave.load(tmp_path / "net.py", trust=True, input_shapes={"x": (1, 3, size, size)})
    assert [tuple(value.shape)[1:] for value in net.outputs] == shapes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "message"),
    [
        ("SSD300()", r"net\.py:6: constructs a net of ChainerCV without n_fg_class"),
        (
            "VGG16(pretrained_model='my.npz')",
            r"net\.py:6: loads its weights itself, which is not supported; give the file",
        ),
        ("ResNet50(arch='me')", r"net\.py:6: is called with arch='me', expected 'fb' or 'he'"),
        ("MobileNetV2()", r"net\.py:6: calls chainercv\.links\.MobileNetV2, which is not supported"),
    ],
)
def test_what_is_not_there_is_refused_with_its_line(made, message, tmp_path):
    (tmp_path / "net.py").write_text(HEADS.format(made.partition("(")[0], made))
    with pytest.raises(errors.CodeError, match=message):
        netweave.load(tmp_path / "net.py", trust=True, input_shapes={"x": (1, 3, 64, 64)})
