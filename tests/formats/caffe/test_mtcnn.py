"""The trained nets of the corpus: read whole, with weights that lie beside them."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx_ir import to_proto

from netweave.files import Source
from netweave.formats.caffe.reader import read
from netweave.graph import known_shape, parameter_key


@pytest.fixture(params=["det1", "det2"])
def net(request, corpus):
    return request.param, read(Source(corpus / "mtcnn" / f"{request.param}.prototxt"))


def arrays(graph):
    initializers = graph.model.graph.initializers.values()
    return {parameter_key(value): value.const_value.numpy() for value in initializers if parameter_key(value)}


def test_weights_are_those_of_the_tensorflow_port(net, corpus):
    """det*.npy were taken from the same caffemodel by another program: HWIO filters, transposed matrices."""
    name, graph = net
    port = np.load(corpus / "mtcnn" / f"{name}.npy", allow_pickle=True, encoding="latin1").item()
    found = arrays(graph)
    assert {key.rpartition("/")[0] for key in found} == set(port)
    for layer, stored in port.items():
        if "alpha" in stored:
            np.testing.assert_array_equal(found[f"{layer}/0"].ravel(), stored["alpha"])
            continue
        np.testing.assert_array_equal(found[f"{layer}/1"], stored["biases"])
        if stored["weights"].ndim == 4:
            np.testing.assert_array_equal(found[f"{layer}/0"], stored["weights"].transpose(3, 2, 0, 1))
        else:
            assert found[f"{layer}/0"].shape == stored["weights"].shape[::-1]
            np.testing.assert_array_equal(
                np.sort(found[f"{layer}/0"], None), np.sort(stored["weights"], None)
            )


def test_layers_keep_their_lines_and_values_the_blobs_names(corpus):
    path = corpus / "mtcnn" / "det1.prototxt"
    graph = read(Source(path))
    prelu = graph.layers["PReLU1"]
    assert (prelu.inputs, prelu.outputs) == (("conv1@conv1",), ("conv1",))
    assert path.read_text().splitlines()[prelu.origin.line - 1].strip() == "layer {"
    assert str(prelu.origin) == f"{path}:{prelu.origin.line}"
    assert [value.name for value in graph.outputs] == ["conv4-2", "prob1"]
    assert known_shape(graph.values()["pool1"]) == (None, 10, 5, 5)
    assert graph.declared == {"data": (1, 3, 12, 12)}
    assert graph.parameters["conv1/1"].lr_mult == 2


def test_runs_with_any_batch(net):
    name, graph = net
    session = onnxruntime.InferenceSession(to_proto(graph.model).SerializeToString())
    size = 12 if name == "det1" else 24
    x = np.random.default_rng(0).standard_normal((5, 3, size, size), np.float32)
    together = session.run(None, {"data": x})
    apart = [session.run(None, {"data": x[i : i + 1]}) for i in range(5)]
    for index, value in enumerate(together):
        np.testing.assert_allclose(
            value, np.concatenate([each[index] for each in apart]), rtol=1e-4, atol=1e-6
        )
    probabilities = together[[value.name for value in graph.outputs].index("prob1")]
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)


def test_a_caffemodel_is_a_net_by_itself(corpus):
    """It was trained in phase TRAIN, on data whose sizes it does not hold; it has Split layers."""
    path = corpus / "mtcnn" / "det1.caffemodel"
    shapes = {"data12face": (4, 3, 12, 12), "label12face": (4, 15)}
    graph = read(Source(path, phase="TRAIN", input_shapes=shapes))
    assert graph.loaded
    assert graph.files == (str(path),)
    assert [value.name for value in graph.outputs] == ["accuracy1", "loss1", "loss2"]
    deploy = arrays(read(Source(corpus / "mtcnn" / "det1.prototxt")))
    found = arrays(graph)
    assert set(found) == set(deploy)
    for key, array in deploy.items():
        np.testing.assert_array_equal(found[key], array)
