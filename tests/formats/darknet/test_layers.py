"""What layers make: as OpenCV 4.8.1 makes it (tests/golden/darknet), or by the formula in parser.c."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import netweave
from netweave.errors import ReadError, ShapeError, UnsupportedError
from tests.oracles.darknet_net import Walk, sections

NETS = Path(__file__).parent / "nets"
GOLDEN = Path(__file__).parents[2] / "golden" / "darknet"


def written(folder: Path, text: str, *, name: str = "net") -> Path:
    """Write a net with seeded weights and return its file."""
    (folder / f"{name}.cfg").write_text(text)
    Walk(sections(text)).write(folder / f"{name}.weights")
    return folder / f"{name}.cfg"


def small(body: str, *, channels: int = 3, size: int = 8) -> str:
    return f"[net]\nchannels={channels}\nheight={size}\nwidth={size}\n{body}"


def made(folder: Path, body: str, *, channels: int = 3, size: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Return an input and what a small net makes of it."""
    net = netweave.load(written(folder, small(body, channels=channels, size=size)))
    data = np.random.default_rng(3).standard_normal((2, channels, size, size), dtype=np.float32)
    (output,) = netweave.run(net, {"data": data}).values()
    return data, output


@pytest.mark.parametrize("name", ["detector", "classifier"])
def test_every_layer_makes_what_opencv_makes(name, tmp_path):
    net = netweave.load(written(tmp_path, (NETS / f"{name}.cfg").read_text(), name=name))
    golden = np.load(GOLDEN / f"{name}.npz")
    expected = {key: golden[key] for key in golden.files if key != "data"}
    assert len(expected) >= 6
    taps = {key: net.layers[key].outputs[0] for key in expected}
    found = netweave.run(net, {"data": golden["data"]}, taps=list(dict.fromkeys(taps.values())))
    for key, array in expected.items():
        rms = float(np.sqrt(np.mean(array**2)))
        np.testing.assert_allclose(found[taps[key]].ravel(), array.ravel(), atol=1e-5 * rms, err_msg=key)


def test_yolo_squashes_all_but_width_and_height(tmp_path):
    data, output = made(
        tmp_path, "[yolo]\nmask=1,2\nnum=3\nclasses=2\nscale_x_y=1.2\nanchors=1,1,2,2,3,3", channels=14
    )
    parts = data.reshape(2, 2, 7, 8, 8)
    logistic = 1 / (1 + np.exp(-parts))
    expected = logistic.copy()
    expected[:, :, :2] = 1.2 * logistic[:, :, :2] - 0.1
    expected[:, :, 2:4] = parts[:, :, 2:4]
    np.testing.assert_allclose(output, expected.reshape(output.shape), atol=1e-6)


def test_gaussian_yolo_leaves_width_and_height_alone(tmp_path):
    """forward_gaussian_yolo_layer: x, y, w, h with their deviations behind each, object, classes."""
    body = "[Gaussian_yolo]\nmask=0,1\nnum=2\nclasses=2\nscale_x_y=1.5\nanchors=1,1,2,2"
    data, output = made(tmp_path, body, channels=22)
    parts = data.reshape(2, 2, 11, 8, 8)
    expected = 1 / (1 + np.exp(-parts))
    for place in (0, 2):
        expected[:, :, place] = 1.5 * expected[:, :, place] - 0.25
    for size in (4, 6):
        expected[:, :, size] = parts[:, :, size]
    np.testing.assert_allclose(output, expected.reshape(output.shape), atol=1e-6)


def test_region_softmaxes_its_classes(tmp_path):
    data, output = made(tmp_path, "[region]\nnum=2\nclasses=3\nsoftmax=1\nanchors=1,1,2,2", channels=16)
    parts = data.reshape(2, 2, 8, 8, 8)
    expected = 1 / (1 + np.exp(-parts))
    expected[:, :, 2:4] = parts[:, :, 2:4]
    powers = np.exp(parts[:, :, 5:])
    expected[:, :, 5:] = powers / powers.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(output, expected.reshape(output.shape), atol=1e-6)


def test_detection_softmaxes_the_classes_of_each_place(tmp_path):
    head = "[detection]\nside=2\nclasses=4\nnum=1\ncoords=4\nsoftmax=1"
    body = "[connected]\noutput=36\nactivation=linear\n" + head
    net = netweave.load(written(tmp_path, small(body)))
    rows = net.layers["connected_0"].outputs[0]
    data = np.random.default_rng(3).standard_normal((2, 3, 8, 8), dtype=np.float32)
    found = netweave.run(net, {"data": data}, taps=[rows])
    expected = found[rows].copy()
    powers = np.exp(expected[:, :16].reshape(2, 4, 4))
    expected[:, :16] = (powers / powers.sum(axis=2, keepdims=True)).reshape(2, 16)
    np.testing.assert_allclose(found[net.outputs[0].name], expected, atol=1e-6)


@pytest.mark.parametrize(("pad", "stride"), [(0, 1), (1, 1), (1, 2), (0, 2)])
def test_local_has_weights_for_every_place(pad, stride, tmp_path):
    """``forward_local_layer`` with its own rule for the number of places."""
    side = ((8 - 1) if pad else (8 - 3)) // stride + 1
    random = np.random.default_rng(5)
    biases = random.standard_normal(2 * side * side, dtype=np.float32)
    weights = random.standard_normal((side * side, 2, 3 * 9), dtype=np.float32)
    header = np.array([0, 2, 0, 0, 0], "<i4").tobytes()
    (tmp_path / "net.weights").write_bytes(header + biases.tobytes() + weights.tobytes())
    body = f"[local]\nfilters=2\nsize=3\nstride={stride}\npad={pad}\nactivation=linear"
    (tmp_path / "net.cfg").write_text(small(body))
    data = random.standard_normal((2, 3, 8, 8), dtype=np.float32)
    (output,) = netweave.run(tmp_path / "net.cfg", {"data": data}).values()
    expected = np.zeros((2, 2, side, side), np.float32)
    padded = np.pad(data, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    for row in range(side):
        for column in range(side):
            window = padded[:, :, row * stride : row * stride + 3, column * stride : column * stride + 3]
            place = row * side + column
            expected[:, :, row, column] = window.reshape(2, -1) @ weights[place].T
    np.testing.assert_allclose(output, expected + biases.reshape(1, 2, side, side), atol=1e-5)


def test_dilation_stretches_the_padding_too(tmp_path):
    body = "[convolutional]\nfilters=2\nsize=3\nstride=1\npad=1\ndilation=2\nactivation=linear"
    data, output = made(tmp_path, body)
    walk = Walk(sections(small(body)))
    weights = walk.arrays[1].reshape(2, 3, 3, 3)
    padded = np.pad(data, [(0, 0), (0, 0), (2, 2), (2, 2)])
    expected = np.zeros((2, 2, 8, 8)) + walk.arrays[0].reshape(1, 2, 1, 1)
    for row in range(3):
        for column in range(3):
            part = padded[:, :, 2 * row : 2 * row + 8, 2 * column : 2 * column + 8]
            expected += np.einsum("nchw,oc->nohw", part, weights[:, :, row, column])
    np.testing.assert_allclose(output, expected, atol=1e-5)


def test_shortcut_adds_what_two_images_have_in_common(tmp_path):
    body = (
        "[maxpool]\nsize=1\nstride=1\n[maxpool]\nsize=1\nstride=2\n"
        "[route]\nlayers=-1,-1\n[shortcut]\nfrom=0\nactivation=linear"
    )
    data, output = made(tmp_path, body)
    half = data[:, :, ::2, ::2]
    expected = np.concatenate([half, half], axis=1)
    expected[:, :3] += half
    np.testing.assert_array_equal(output, expected)


def test_crop_takes_the_middle_and_stretches_the_range(tmp_path):
    data, output = made(tmp_path, "[crop]\ncrop_height=5\ncrop_width=6\nflip=1")
    np.testing.assert_allclose(output, 2 * data[:, :, 1:6, 1:7] - 1, atol=1e-6)


def test_reorg3d_moves_blocks_to_channels(tmp_path):
    data, output = made(tmp_path, "[reorg3d]\nstride=2")
    blocks = [data[:, :, row::2, column::2] for row in range(2) for column in range(2)]
    np.testing.assert_array_equal(output, np.concatenate(blocks, axis=1))


@pytest.mark.parametrize(
    ("activation", "formula"),
    [
        ("leaky", lambda x: np.where(x > 0, x, 0.1 * x)),
        ("relie", lambda x: np.where(x > 0, x, 0.01 * x)),
        ("ramp", lambda x: np.maximum(x, 0) + 0.1 * x),
        ("loggy", lambda x: 2 / (1 + np.exp(-x)) - 1),
        ("hardtan", lambda x: np.clip(x, -1, 1)),
        ("relu6", lambda x: np.clip(x, 0, 6)),
        ("swish", lambda x: x / (1 + np.exp(-x))),
        ("mish", lambda x: x * np.tanh(np.log1p(np.exp(x)))),
        ("elu", lambda x: np.where(x >= 0, x, np.exp(x) - 1)),
        ("selu", lambda x: 1.0507 * np.where(x >= 0, x, 1.6732 * (np.exp(x) - 1))),
        ("gelu", lambda x: 0.5 * x * (1 + np.tanh(0.797885 * x + 0.035677 * x**3))),
    ],
)
def test_activations_follow_their_formulas(activation, formula, tmp_path):
    data, output = made(tmp_path, f"[activation]\nactivation={activation}")
    np.testing.assert_allclose(output, formula(data.astype(np.float64)), atol=2e-5)


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (
            "[gru]\noutput=4",
            UnsupportedError,
            r"net\.cfg: has one layer type .* gru \(line 5; it keeps a state",
        ),
        ("[fancy]\n[fancy]", UnsupportedError, r"fancy \(line 5, line 6\)"),
        ("[convolutional]\nxnor=1", UnsupportedError, r"net\.cfg:5: layer 'convolutional_0' .*xnor=1"),
        ("[convolutional]\nfilters=0", ReadError, r"net\.cfg:6: .*'filters' is '0', expected .* at least 1"),
        ("[convolutional]\nfilters=many", ReadError, r"net\.cfg:6: .*'filters' is 'many', expected an int"),
        (
            "[convolutional]\ngroups=2\nfilters=4",
            ShapeError,
            r"net\.cfg:6: .*'groups' is 2, which does not divide 3",
        ),
        ("[convolutional]\nsize=11", ShapeError, r"a window of 11 does not fit in 8 elements"),
        (
            "[convolutional]\nactivation=magic",
            UnsupportedError,
            r"'magic' is not supported; expected one of elu, ",
        ),
        ("[route]\nlayers=3", ReadError, r"net\.cfg:6: .*'layers' is '3', expected layers before this one"),
        ("[route]", ReadError, r"has no 'layers', expected numbers of layers"),
        ("[yolo]\nmask=0\nclasses=2", ShapeError, r"an input of 3 channels, expected 7"),
        ("[Gaussian_yolo]\nmask=0\nclasses=2", ShapeError, r"an input of 3 channels, expected 11"),
        ("[connected]\noutput=4\n[maxpool]\nsize=2", ShapeError, r"net\.cfg:7: .*needs an image"),
        ("[reorg]\nstride=2", ShapeError, r"3 channels of 8x8 cannot be cut into blocks of 2x2"),
        ("[convolutional]\nstrid=2", ReadError, r"strid='2' \(convolutional line 6; did you mean 'stride'"),
        ("[maxpool]\nsize=2\npadding=9", ReadError, r"net\.cfg:7: .*padding \[5, 5\] must be less than"),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(body, error, message, tmp_path):
    (tmp_path / "net.cfg").write_text(small(body))
    with pytest.raises(error, match=message):
        netweave.load(tmp_path / "net.cfg")
