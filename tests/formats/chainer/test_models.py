"""Chainer models read against the stand-in compute what Chainer 7.8.1 computes (tests/golden/chainer)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import netweave
from netweave import api, errors
from netweave.files.sandbox import has_guard
from tests.oracles.chainer_models import GOLDEN, NETS, SIZES


def read(name: str, **settings) -> netweave.Graph:
    return netweave.load(f"{NETS}:{name}", GOLDEN / f"{name}.npz", trust=True, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_models_compute_what_chainer_computes(name):
    golden = np.load(GOLDEN / f"{name}-made.npz")
    net = api.to_inference(read(name, input_shapes={"x": SIZES[name]}))
    found = list(netweave.run(net, {"x": golden["x"]}).values())
    expected = [golden[f"y{number}"] for number in range(len(found))]
    if name == "Classified":
        expected = [np.exp(y) / np.exp(y).sum(axis=1, keepdims=True) for y in expected]
    assert len(golden.files) == 1 + len(found)
    for made, wanted in zip(found, expected, strict=True):
        rms = float(np.sqrt(np.mean(np.square(wanted))))
        np.testing.assert_allclose(made, wanted, atol=1e-5 * rms)


@pytest.mark.slow
def test_layers_are_the_links_with_their_lines():
    net = read("Lenet")
    layer = net.layers["conv2"]
    assert (layer.type, layer.settings["stride"], layer.settings["ksize"]) == ("Convolution2D", 2, 3)
    assert layer.parameters == ("conv2/W", "conv2/b")
    line = Path(NETS).read_text().splitlines()[layer.origin.line - 1]
    assert "self.conv2(h)" in line
    assert net.layers["max_pooling_2d"].settings["pad"] == 1
    assert [value.name for value in net.inputs] == ["x"]
    assert net.inputs[0].shape[0] != 1
    assert "traced with Nx1x28x28" in net.notes[0]
    assert "--input-shape x=1x1x28x28" in net.notes[0]


@pytest.mark.slow
def test_the_batch_stays_open():
    golden = np.load(GOLDEN / "Lenet-made.npz")
    x = np.concatenate([golden["x"]] * 3)
    (made,) = netweave.run(read("Lenet"), {"x": x}).values()
    np.testing.assert_allclose(made, np.concatenate([golden["y0"]] * 3), atol=1e-6)


def written(folder: Path, body: str, *, head: str = "") -> Path:
    imports = "import chainer\nimport chainer.functions as F\nimport chainer.links as L"
    text = f"{imports}\n{head}\nclass Net(chainer.Chain):\n"
    path = folder / "net.py"
    path.write_text(text + "".join(f"    {line}\n" for line in body.splitlines()))
    return path


FORWARD = """def __init__(self):
    super().__init__()
    with self.init_scope():
        self.fc = L.Linear(4, 2)
def forward(self, x):
    {}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("return F.fft(self.fc(x))", r"net\.py:11: calls chainer\.functions\.fft, which is not supported"),
        ("return self.fc(x) if F.sum(x) > 0 else x", r"net\.py:11: .*not supported between"),
        (
            "return self.fc(x) if F.sum(x) else x",
            r"net\.py:11: has a condition that depends on the values of a variable",
        ),
        ("return float(F.sum(self.fc(x)))", r"reads the value of a variable"),
        ("return 'text'", r"returns str, expected a variable"),
        ("return self.gone(x)", r"net\.py:11: its code fails: AttributeError: .*'gone'"),
        (
            "return F.max_pooling_2d(F.reshape(x, (1, 1, 2, 2)), 2, 1, return_indices=True)",
            r"return_indices and windows that overlap, or padding, is not supported",
        ),
    ],
)
def test_what_is_not_recorded_is_refused_with_its_line(line, message, tmp_path):
    path = written(tmp_path, FORWARD.format(line))
    with pytest.raises(errors.NetweaveError, match=message):
        netweave.load(path, trust=True, input_shapes={"x": (1, 4)})


@pytest.mark.slow
def test_weights_that_do_not_fit_are_refused(tmp_path):
    path = written(tmp_path, FORWARD.format("return self.fc(x)"))
    for arrays, message in (
        (
            {"fc/W": np.zeros((2, 3), "f"), "fc/b": np.zeros(2, "f")},
            r"'fc/W' has the shape \(2, 3\) in the weights",
        ),
        ({"fc/W": np.zeros((2, 4), "f")}, r"the weights have no array 'fc/b'; they have fc/W"),
    ):
        np.savez(tmp_path / "w.npz", **arrays)
        with pytest.raises(errors.WeightError, match=message):
            netweave.load(path, tmp_path / "w.npz", trust=True)
    (tmp_path / "w.npz").write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(errors.ReadError, match=r"w\.npz: is not a complete \.npz file of arrays"):
        netweave.load(path, tmp_path / "w.npz", trust=True)


@pytest.mark.slow
def test_weights_that_the_model_does_not_have_are_left_out_as_by_chainer(tmp_path):
    path = written(tmp_path, FORWARD.format("return self.fc(x)"))
    arrays = {"fc/W": np.ones((2, 4), "f"), "fc/b": np.zeros(2, "f"), "old/W": np.zeros(1)}
    np.savez(tmp_path / "w.npz", **arrays)
    net = netweave.load(path, tmp_path / "w.npz", trust=True)
    assert "w.npz holds 'old/W', which the model does not have: left out" in net.notes[-1]
    (made,) = netweave.run(net, {"x": np.ones((1, 4), np.float32)}).values()
    np.testing.assert_array_equal(made, [[4, 4]])


@pytest.mark.slow
def test_weights_of_a_classifier_and_in_hdf5_are_read(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = written(tmp_path, FORWARD.format("return self.fc(x)"))
    weight, bias = np.arange(8, dtype="f").reshape(2, 4), np.array([1, -1], "f")
    np.savez(tmp_path / "w.npz", **{"predictor/fc/W": weight, "predictor/fc/b": bias})
    with h5py.File(tmp_path / "w.h5", "w") as file:
        file["fc/W"], file["fc/b"] = weight, bias
    x = np.ones((1, 4), np.float32)
    for name in ("w.npz", "w.h5"):
        (made,) = netweave.run(netweave.load(path, tmp_path / name, trust=True), {"x": x}).values()
        np.testing.assert_array_equal(made, x @ weight.T + bias)


@pytest.mark.slow
def test_scripts_around_a_model_may_import_what_is_not_recorded(tmp_path):
    head = (
        "from chainer import training, iterators\nfrom chainer.training import extensions\n"
        "from chainer.optimizers import MomentumSGD\nclass Own(extensions.Evaluator):\n    pass\n"
    )
    net = netweave.load(written(tmp_path, FORWARD.format("return self.fc(x)"), head=head), trust=True)
    assert list(net.layers) == ["fc"]


def test_several_models_ask_for_a_name():
    with pytest.raises(errors.UsageError, match=r"has 8 classes .* Arithmetic.*name it \(.*models\.py:"):
        netweave.load(NETS, trust=True)


def test_code_runs_only_guarded_or_trusted(tmp_path, monkeypatch):
    path = written(tmp_path, FORWARD.format("return self.fc(x)"))
    monkeypatch.setattr("netweave.files.sandbox.has_guard", lambda: False)
    with pytest.raises(errors.CodeError, match="install bubblewrap"):
        netweave.load(path)


@pytest.mark.guarded
@pytest.mark.slow
@pytest.mark.skipif(not Path("/usr/bin/bwrap").exists(), reason="the guard, bubblewrap, is not here")
@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "import socket; socket.create_connection(('127.0.0.1', 9), 1)",
            r"net\.py:11: its code fails: (OSError|Connection)",
        ),
        (
            "open('OUTSIDE', 'w')",
            r"net\.py:11: its code fails: (OSError|PermissionError|FileNotFoundError)",
        ),
        (
            "import os; os.listdir('FOLDER')",
            r"net\.py:11: its code fails: (PermissionError|FileNotFoundError)",
        ),
    ],
)
def test_the_guard_keeps_code_in(line, message, tmp_path):
    outside = tmp_path / "outside"
    (tmp_path / "secret").mkdir()
    body = FORWARD.format(
        line.replace("OUTSIDE", str(outside)).replace("FOLDER", str(tmp_path / "secret"))
        + "; return self.fc(x)"
    )
    with pytest.raises(errors.CodeError, match=message):
        netweave.load(written(tmp_path, body), input_shapes={"x": (1, 4)})
    assert not outside.exists()


@pytest.mark.guarded
@pytest.mark.slow
def test_modules_beside_the_file_are_run_in_the_guard_and_layers_have_their_lines(tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "secret.txt").write_text("not for the model")
    (tmp_path / "parts" / "head.py").write_text(
        "import os\nimport chainer\nfrom chainer.functions.activation.relu import relu\n"
        "from chainer import configuration\nimport gone_package\n\n@gone_package.registered('x')\n"
        "def unused():\n    pass\n\n\nclass Head(chainer.Chain):\n    def __init__(self):\n"
        "        super().__init__()\n        with self.init_scope():\n"
        "            self.fc = chainer.links.Linear(4, 2)\n"
        "        self.fc.W.array[...] = 0\n"
        "    def forward(self, x):\n        here = os.path.dirname(os.path.dirname(__file__))\n"
        "        assert not os.path.exists(here + '/secret.txt')\n"
        "        self.score = {'y': [relu(self.fc(x)), x + configuration.config.train]}['y'][0]\n"
    )
    path = tmp_path / "net.py"
    path.write_text("import chainer\nfrom parts.head import Head\n\n\ndef make():\n    return Head()\n")
    if not has_guard():
        pytest.skip("there is no guard here")
    net = netweave.load(path, input_shapes={"x": (1, 4)})
    assert net.layers["fc"].origin.line == 21
    assert net.layers["fc"].origin.file == str(tmp_path / "parts" / "head.py")
    assert [tuple(value.shape)[1:] for value in net.outputs] == [(2,)]


@pytest.mark.slow
def test_the_width_of_an_image_need_not_be_that_of_the_first_link_by_name(tmp_path):
    body = (
        "insize = 16\ndef __init__(self):\n"
        "    super().__init__(first=L.Convolution2D(3, 8, 3), Also=L.Convolution2D(8, 4, 3))\n"
        "def __call__(self, x):\n    return self.Also(F.relu(self.first(x)))"
    )
    net = netweave.load(written(tmp_path, body), trust=True)
    assert tuple(net.inputs[0].shape)[1:] == (3, 16, 16)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "return chainer.nowhere.made(x)",
            r"net\.py:11: calls chainer\.nowhere\.made, which is not supported",
        ),
        ("return x if chainer.nowhere else 0", r"net\.py:11: decides by chainer\.nowhere"),
        ("self.fc.W.array[...] = 0; return self.fc(x)", r"net\.py:11: changes the stored array 'W'"),
    ],
)
def test_what_is_imported_and_not_recorded_is_refused_where_it_counts(line, message, tmp_path):
    path = written(tmp_path, FORWARD.format(line))
    with pytest.raises(errors.CodeError, match=message):
        netweave.load(path, trust=True, input_shapes={"x": (1, 4)})


@pytest.mark.slow
def test_an_input_that_is_looked_up_after_a_reshape_is_of_whole_numbers(tmp_path):
    body = "def __init__(self):\n    super().__init__(table=L.EmbedID(5, 3))\ndef forward(self, x, z):\n"
    path = written(tmp_path, body + "    return self.table(F.reshape(x, (2, 6))) + F.sum(z)\n")
    net = netweave.load(path, trust=True, input_shapes={"x": (2, 2, 3), "z": (1,)})
    assert [value.dtype.name for value in net.inputs] == ["INT64", "FLOAT"]


@pytest.mark.slow
def test_functions_of_chainer_1_are_classes(tmp_path):
    line = "return F.Concat(axis=0)(F.ReLU()(x), F.LeakyReLU(0.5)(x), F.Dropout(0.5)(x))"
    path = written(tmp_path, FORWARD.format(line))
    x = np.array([[-2, 2, -4, 4]], np.float32)
    (made,) = netweave.run(netweave.load(path, trust=True, input_shapes={"x": (1, 4)}), {"x": x}).values()
    np.testing.assert_array_equal(made, [[0, 2, 0, 4], [-1, 2, -2, 4], [-2, 2, -4, 4]])
