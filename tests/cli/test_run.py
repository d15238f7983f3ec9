"""``netweave run`` and ``convert`` on the example's net; what it gives is known from OpenCV and MXNet."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from examples.padding import demo, make_weights
from netweave import api
from netweave.errors import UsageError
from netweave.graph import GraphBuilder, Parameter
from netweave.installation import install_command
from netweave.runtime.backends import BACKENDS
from tests.oracles import golden, recipe
from tests.runtime.backends.installed import is_installed

RECORDS = json.loads((Path(__file__).parent.parent / "golden" / "examples.json").read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The example's nets with weights, and inputs for both."""
    place = tmp_path_factory.mktemp("leaves")
    for file in (demo.NET, demo.PORT):
        shutil.copy(file, place)
    make_weights.write(place)
    data = recipe.image("data", (2, 3, 32, 32), 1.0)
    np.savez(place / "in.npz", data=data, image=data)
    np.save(place / "in.npy", data)
    return place


@pytest.mark.parametrize(("net", "given"), [("leaves.prototxt", "data"), ("leaves-symbol.json", "image")])
def test_npz_in_npz_out(folder, netweave, tmp_path, net, given):
    np.savez(tmp_path / "in.npz", **{given: np.load(folder / "in.npy")})
    out = tmp_path / "out.npz"
    called = netweave("run", str(folder / net), "--input", str(tmp_path / "in.npz"), "--output", str(out))
    assert (called.status, called.err) == (0, "")
    with np.load(out) as found:
        (name,) = found.files
        assert golden.difference(found[name], RECORDS[net]) < golden.TOLERANCE
    assert [line.split()[:3] for line in called.out.splitlines() if line.startswith((" in", " out"))] == [
        ["in", given, "2x3x32x32"],
        ["out", name, "2x10"],
    ]


def test_npy_in_npy_out_and_statistics(folder, netweave, tmp_path):
    out = tmp_path / "out.npy"
    called = netweave(
        *("run", str(folder / "leaves.prototxt"), "--input", str(folder / "in.npy")),
        *("--output", str(out), "--json", "-"),
    )
    found, said = np.load(out), json.loads(called.out)["outputs"]["prob"]
    assert golden.difference(found, RECORDS["leaves.prototxt"]) < golden.TOLERANCE
    assert said["rms"] == pytest.approx(RECORDS["leaves.prototxt"]["rms"], rel=1e-5)
    assert (said["min"], said["max"]) == (pytest.approx(found.min()), pytest.approx(found.max()))


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_gives_the_same(folder, netweave, tmp_path, backend):
    out = tmp_path / "out.npy"
    net, given = str(folder / "leaves.prototxt"), str(folder / "in.npy")
    called = netweave("run", net, "--input", given, "--output", str(out), "--backend", backend)
    if not is_installed(backend):
        assert called.status == 2
        assert install_command(backend) in called.err
        return
    assert called.status == 0
    assert golden.difference(np.load(out), RECORDS["leaves.prototxt"]) < golden.TOLERANCE


def test_taps_are_named_and_written(folder, netweave, tmp_path):
    out = tmp_path / "out.npz"
    called = netweave(
        *("run", str(folder / "leaves.prototxt"), "--random", "3", "--tap", "pool1", "--tap", "fc"),
        *("--output", str(out)),
    )
    with np.load(out) as found:
        assert {name: array.shape for name, array in found.items()} == {
            "prob": (1, 10),
            "pool1": (1, 16, 16, 16),
            "fc": (1, 10),
        }
        exponents = np.exp(found["fc"] - found["fc"].max())
        np.testing.assert_allclose(found["prob"], exponents / exponents.sum(), rtol=1e-4)
    assert [line.split()[:2] for line in called.out.splitlines() if line.startswith(" tap")] == [
        ["tap", "pool1"],
        ["tap", "fc"],
    ]


def test_equal_seeds_give_equal_outputs(folder, netweave):
    runs = [
        netweave("run", str(folder / "leaves-symbol.json"), "--random", seed).out for seed in ("1", "1", "2")
    ]
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--random", "1", "--input", "x.npz"], "give the inputs with --input FILE, or draw random ones"),
        (["--random", "1", "--tap", "nothing"], "no value named 'nothing' in net 'leaves'"),
        (["--random", "1", "--output", "out.png"], "out.png: unknown suffix, expected .npz, .npy, .h5"),
        (["--input", "none.npz"], "none.npz: there is no such file"),
    ],
)
def test_wrong_call(folder, netweave, arguments, message):
    called = netweave("run", str(folder / "leaves.prototxt"), *arguments)
    assert (called.status, called.out) == (2, "")
    assert message in called.err
    assert called.err.count("\n") == 1


def test_labels_are_asked_for_only_as_written(folder, netweave, tmp_path):
    np.savez(tmp_path / "in.npz", image=np.load(folder / "in.npy"))
    net, given = str(folder / "leaves-symbol.json"), str(tmp_path / "in.npz")
    assert netweave("run", net, "--input", given).status == 0
    called = netweave("run", net, "--input", given, "--as-written")
    assert called.status == 2
    assert "softmax_label" in called.err


@pytest.mark.parametrize("options", [[], ["--for", "inference"]])
@pytest.mark.parametrize("net", ["leaves.prototxt", "leaves-symbol.json"])
def test_converted_net_computes_the_same_and_keeps_its_layers(folder, netweave, tmp_path, net, options):
    onnx, given, out = (str(tmp_path / name) for name in ("net.onnx", "in.npz", "out.npy"))
    called = netweave("convert", str(folder / net), onnx, *options)
    assert called.status == 0
    assert called.out.startswith("wrote ")
    assert ("gained: nodes " in called.out) == bool(options)
    shown = [json.loads(netweave("inspect", name, "--json", "-").out) for name in (str(folder / net), onnx)]
    kept = [[(layer["name"], layer["type"], layer["settings"]) for layer in each["layers"]] for each in shown]
    assert kept[0] == kept[1]
    operators = [node["operator"] for node in shown[1]["nodes"]]
    assert ("BatchNormalization" in operators) == (not options)
    (name,) = [value["name"] for value in shown[1]["inputs"] if "label" not in value["name"]]
    np.savez(given, **{name: np.load(folder / "in.npy")})
    assert netweave("run", onnx, "--input", given, "--output", out).status == 0
    assert golden.difference(np.load(out), RECORDS[net]) < golden.TOLERANCE


def test_convert_says_what_only_netweave_knows(folder, netweave, tmp_path):
    called = netweave("convert", str(folder / "leaves-symbol.json"), str(tmp_path / "net.onnx"))
    assert "ONNX has no operator for SoftmaxOutput" in called.out


def test_convert_without_weights_needs_leave(netweave, tmp_path):
    net = tmp_path / "leaves.prototxt"
    shutil.copy(demo.NET, net)
    called = netweave("convert", str(net), str(tmp_path / "net.onnx"))
    assert called.status == 2
    assert "--random-weights" in called.err or "random_weights" in called.err
    called = netweave("convert", str(net), str(tmp_path / "net.onnx"), "--random-weights")
    assert called.status == 0
    assert "the values in the file are drawn" in called.out


def test_convert_says_which_names_it_writes(folder, netweave, tmp_path):
    called = netweave("convert", str(folder / "leaves.prototxt"), str(tmp_path / "net.pb"))
    assert called.status == 2
    assert "unknown file name for a net, expected .prototxt (Caffe), -symbol.json (MXNet)" in called.err


def test_convert_says_which_formats_it_writes(folder, netweave, tmp_path):
    called = netweave("convert", str(folder / "leaves.prototxt"), str(tmp_path / "net.py"), "--to", "torch")
    assert called.status == 2
    assert "to is 'torch', expected one of caffe, mxnet, onnx, pytorch, keras" in called.err


def wide():
    """Return two convolutions over an image; the first result is by far the largest."""
    builder, draw = GraphBuilder("wide", format="onnx"), np.random.default_rng(0)
    value = builder.input("data", ("batch", 3, 64, 64))
    for name, (count, channels) in {"a": (64, 3), "b": (16, 64)}.items():
        filters = draw.normal(size=(count, channels, 3, 3)).astype(np.float32)
        w = builder.parameter(Parameter(f"{name}.w", filters.shape), filters)
        value = builder.add("Conv", [value, w], {"kernel_shape": [3, 3], "pads": [1] * 4}, outputs=name)
    return builder.finish([value])


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
def test_within_a_limit_the_outputs_are_the_same(netweave, tmp_path):
    graph = wide()
    assert api.measure_memory(graph).peak > 1_300_000
    assert api.measure_memory(graph, limit="800kB").peak < 800_000
    image = {"data": np.random.default_rng(0).normal(size=(1, 3, 64, 64)).astype(np.float32)}
    whole = api.run(graph, image, backend="torch")["b"]
    banded = api.run(graph, image, backend="torch", memory="800kB")["b"]
    np.testing.assert_allclose(banded, whole, rtol=1e-6, atol=1e-4)
    with pytest.raises(UsageError, match="taps a lie inside layers that are computed over bands"):
        api.run(graph, image, backend="torch", memory="800kB", taps=["a"])
    net, inputs, output = (str(tmp_path / name) for name in ("wide.onnx", "in.npz", "out.npy"))
    api.save(graph, net)
    np.savez(inputs, **image)
    called = netweave(
        *("run", net, "--input", inputs, "--output", output),
        *("--backend", "torch", "--memory", "800kB"),
    )
    assert (called.status, called.err) == (0, "")
    assert np.array_equal(np.load(output), banded)
    assert "a run of 1 needs" in netweave("run", net, "--input", inputs, "--memory", "1kB").err
