"""Every backend on the same real nets: every value of every layer, to 1e-4 of its rms."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.graph import GraphBuilder, Layer, Parameter
from netweave.runtime.backends import BACKENDS, prepare
from tests.runtime.backends.installed import is_installed

TOLERANCE = 1e-4

NETS = {
    "mtcnn/det1.prototxt": (2, 3, 33, 26),
    "mtcnn/det2.prototxt": (2, 3, 24, 24),
    "mtcnn/det1-symbol.json": (2, 3, 33, 26),
    "caffe/head-1.0/examples__mnist__lenet.prototxt": (2, 1, 28, 28),
    "caffe/head-1.0/examples__cifar10__cifar10_full.prototxt": (2, 3, 32, 32),
    "caffe/head-1.0/models__bvlc_googlenet__deploy.prototxt": (1, 3, 224, 224),
    "caffe/head-1.0/models__bvlc_alexnet__deploy.prototxt": (1, 3, 227, 227),
    "caffe/branch-intel/models__default_resnet_50__train_val.prototxt": (1, 3, 224, 224),
}


def marks(shape):
    return [pytest.mark.slow] if shape[-1] > 100 else []


@pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "onnxruntime"])
@pytest.mark.parametrize(
    ("file", "shape"), [pytest.param(*row, id=row[0], marks=marks(row[1])) for row in NETS.items()]
)
def test_backends_agree(corpus, backend, file, shape):
    if not is_installed(backend):
        pytest.skip(f"the extra {backend!r} is not installed")
    graph = netweave.load(corpus / file, input_shapes={"data": shape})
    inputs = {value.name: np.zeros(shape[0], np.float32) for value in graph.inputs}
    inputs["data"] = np.random.default_rng(0).standard_normal(shape, dtype=np.float32) / 4
    taps = [value.name for node in graph.nodes for value in node.outputs if value.name]
    expected = prepare(graph, taps=taps).run(inputs)
    found = prepare(graph, taps=taps, backend=backend).run(inputs)
    assert list(found) == list(expected)
    for name, array in expected.items():
        rms = np.sqrt(np.mean(np.square(array, dtype=np.float64)))
        assert found[name].shape == array.shape, name
        assert np.abs(found[name] - array).max() <= TOLERANCE * rms, name


@pytest.mark.parametrize("num_groups", [1, 4, 8])
@pytest.mark.parametrize("backend", BACKENDS)
def test_groups_far_from_zero_are_normalised(backend, num_groups):
    """A variance that is taken as E[x^2] - E[x]^2, as the function that ONNX gives has it, is noise here."""
    if not is_installed(backend):
        pytest.skip(f"the extra {backend!r} is not installed")
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal(8, dtype=np.float32) for name in ("scale", "bias")}
    builder = GraphBuilder("net", format="onnx")
    x = builder.input("x", (None, 8, None, 11))
    with builder.layer(Layer("norm", "norm", "GroupNormalization")):
        stored = [builder.parameter(Parameter(name, (8,)), array) for name, array in arrays.items()]
        settings = {"num_groups": num_groups, "epsilon": 0.1}
        made = builder.add("GroupNormalization", [x, *stored], settings, outputs="y")
    graph = builder.finish([made])
    given = 1000 + rng.standard_normal((2, 8, 9, 11), dtype=np.float32)
    groups = given.astype(np.float64).reshape(2, num_groups, -1)
    deviation = np.sqrt(groups.var(2, keepdims=True) + 0.1)
    normalised = ((groups - groups.mean(2, keepdims=True)) / deviation).reshape(given.shape)
    scale, bias = (array[:, None, None] for array in arrays.values())
    found = prepare(graph, backend=backend).run({"x": given})
    assert list(found) == ["y"]
    np.testing.assert_allclose(found["y"], normalised * scale + bias, atol=2e-3)
