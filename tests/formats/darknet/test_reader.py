"""Files of Darknet: the text, the weights, sizes, and what is said of wrong ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import netweave
from netweave.errors import ReadError, ShapeError, UsageError, WeightError
from netweave.formats.darknet.config import parse_config
from tests.formats.darknet.test_layers import NETS, small, written

if TYPE_CHECKING:
    from pathlib import Path

DENSE = "[connected]\noutput=2\nactivation=linear"


def test_sections_keep_lines_and_the_first_of_a_repeated_setting():
    net, layer = parse_config(b"# c\n[net]\n; c\nwid th = 4\n[conv]\nsize=3x\nsize=5\n", file="a.cfg")
    assert (net.type, net.line, dict(net.settings)) == ("net", 2, {"width": "4"})
    assert layer.integer("size", 1) == 3
    assert layer.lines["size"] == 6


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"width=4\n[net]", r"a\.cfg:1: 'width=4' is before the first section"),
        (b"[net]\nwidth", r"a\.cfg:2: 'width' is not a setting; expected name=value"),
        (b"[net\nwidth=4", r"a\.cfg:1: '\[net' is not a section"),
        (b"# nothing", r"a\.cfg: contains no section"),
        (b"[net]\nname=\xff", r"a\.cfg: is not text: byte 11"),
    ],
)
def test_a_text_that_is_no_net_is_refused(text, message):
    with pytest.raises(ReadError, match=message):
        parse_config(text, file="a.cfg")


def test_a_net_is_found_by_its_first_section_and_its_weights_beside_it(tmp_path):
    net = netweave.load(written(tmp_path, "\n# a comment\n" + (NETS / "detector.cfg").read_text()))
    assert net.format == "darknet"
    assert [value.name for value in net.outputs] == ["yolo_17"]
    assert list(net.parameters)[:5] == [
        f"convolutional_0/{name}"
        for name in ("biases", "scales", "rolling_mean", "rolling_variance", "weights")
    ]
    assert all(parameter.loaded for parameter in net.parameters.values())
    assert str(net.layers["maxpool_1"].origin).endswith("net.cfg:19")
    assert net.layers["route_11"].inputs == ("maxpool_10", "maxpool_9", "convolutional_5")


def test_sizes_can_be_given(tmp_path):
    (tmp_path / "net.cfg").write_text((NETS / "detector.cfg").read_text())
    net = netweave.load(tmp_path / "net.cfg", input_shapes={"data": (1, 3, 64, 32)})
    assert tuple(net.outputs[0].shape)[1:] == (16, 15, 7)
    with pytest.raises(UsageError, match="no input named 'image'; the inputs are 'data'"):
        netweave.load(tmp_path / "net.cfg", input_shapes={"image": (1, 3, 64, 32)})
    with pytest.raises(ShapeError, match=r"\[3, 64, 32\] is given for 'data', expected batch, channels"):
        netweave.load(tmp_path / "net.cfg", input_shapes={"data": (3, 64, 32)})


@pytest.mark.parametrize("version", [(0, 1), (0, 2), (2000, 2)])
def test_dense_weights_of_every_version(version, tmp_path):
    """A counter of 4 bytes before version 0.2, of 8 after; from 1000 on, matrices are transposed."""
    matrix = np.arange(6, dtype="<f4").reshape(2, 3)
    biases = np.array([0.5, -0.5], "<f4")
    major, minor = version
    counter = 8 if major * 10 + minor >= 2 else 4
    stored = matrix.T if major > 1000 else matrix
    header = np.array([major, minor, 0], "<i4").tobytes() + bytes(counter)
    (tmp_path / "net.weights").write_bytes(header + biases.tobytes() + stored.tobytes())
    (tmp_path / "net.cfg").write_text("[net]\ninputs=3\n" + DENSE)
    data = np.array([[1, 2, 3], [0, 0, 1]], np.float32)
    (output,) = netweave.run(tmp_path / "net.cfg", {"data": data}).values()
    np.testing.assert_array_equal(output, data @ matrix.T + biases)


def test_statistics_of_a_dense_layer_follow_its_weights(tmp_path):
    """``load_connected_weights``: biases, weights, scales, means, variances."""
    numbers = np.random.default_rng(0).uniform(0.5, 2, 2 + 6 + 3 * 2).astype("<f4")
    (tmp_path / "net.weights").write_bytes(np.array([0, 2, 0, 0, 0], "<i4").tobytes() + numbers.tobytes())
    (tmp_path / "net.cfg").write_text("[net]\ninputs=3\n" + DENSE + "\nbatch_normalize=1")
    data = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    (output,) = netweave.run(tmp_path / "net.cfg", {"data": data}).values()
    biases, weights, scales = numbers[:2], numbers[2:8].reshape(2, 3), numbers[8:10]
    mean, variance = numbers[10:12], numbers[12:14]
    expected = (data @ weights.T - mean) / np.sqrt(variance + 1e-5) * scales + biases
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-6)


def damaged(path: Path, change) -> Path:
    weights = path.with_suffix(".weights")
    weights.write_bytes(change(weights.read_bytes()))
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda content: content[:-8],
            r"net\.weights: ends in weights of .*net\.cfg:5: layer 'connected_0'",
        ),
        (
            lambda content: content + bytes(8),
            r"contains 388 numbers, but the net needs 386; .* another net",
        ),
        (lambda content: content[:-3], r"expected a header and float32 numbers; was it copied completely"),
        (lambda content: content[:9], r"has 9 bytes, too few for a header of Darknet"),
        (lambda content: b"\xff" * 4 + content[4:], r"begins with version -1\.2"),
    ],
)
def test_weights_that_do_not_fit_are_refused(change, message, tmp_path):
    path = damaged(written(tmp_path, small(DENSE)), change)
    with pytest.raises(WeightError, match=message):
        netweave.load(path)


def test_a_net_compares_with_its_onnx_form(tmp_path):
    path = written(tmp_path, (NETS / "detector.cfg").read_text())
    netweave.save(netweave.load(path), tmp_path / "net.onnx")
    assert str(netweave.compare(path, tmp_path / "net.onnx")).startswith("Comparison: identical")
