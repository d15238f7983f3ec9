"""Files of stored arrays of every age and kind, and what does not fit."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netweave.errors import NetweaveError, ReadError, ShapeError, UsageError, WeightError
from netweave.files import Source
from netweave.formats.caffe import read_blob
from netweave.formats.caffe.reader import read
from netweave.installation import install_command
from tests.formats.caffe.nets import inputs, layer, load, normal, run, stored
from tests.oracles.caffemodel import _bytes, _number, _varint, caffemodel

NET = inputs(x=(2, 3, 4, 4)) + (
    'layer { name: "conv" type: "Convolution" bottom: "x" top: "c" '
    "convolution_param { num_output: 2 kernel_size: 3 } }\n"
    'layer { name: "ip" type: "InnerProduct" bottom: "c" top: "y" inner_product_param { num_output: 5 } }\n'
)
ARRAYS = {
    "conv": [normal(2, 3, 3, 3), normal(2, seed=1)],
    "ip": [normal(5, 8), normal(5, seed=2)],
}
LAYERS = [("conv", "convolution", ARRAYS["conv"]), ("ip", "innerproduct", ARRAYS["ip"])]


def holds(graph):
    found = stored(graph)
    for name, arrays in ARRAYS.items():
        for index, array in enumerate(arrays):
            np.testing.assert_array_equal(found[f"{name}/{index}"], array)
    return graph.loaded


@pytest.mark.parametrize("generation", [0, 1, 2])
def test_arrays_of_every_age(tmp_path, generation):
    path = tmp_path / "w.caffemodel"
    path.write_bytes(caffemodel(LAYERS, generation=generation))
    graph = load(tmp_path, NET, weights=path)
    assert holds(graph)
    assert graph.files == (str(tmp_path / "net.prototxt"), str(path))


def layer_bytes(name, *blobs):
    return _bytes(
        100, _bytes(1, name.encode()) + _bytes(2, b"Bias") + b"".join(_bytes(7, blob) for blob in blobs)
    )


def shape_bytes(*sizes):
    return _bytes(7, _bytes(1, b"".join(map(_varint, sizes))))


VALUES = np.array([1.5, -2.0, 3.25], "<f4")
FORMS = {
    "packed": _bytes(5, VALUES.tobytes()) + shape_bytes(3),
    "packed in two parts": _bytes(5, VALUES[:1].tobytes()) + _bytes(5, VALUES[1:].tobytes()) + shape_bytes(3),
    "one by one": b"".join(_varint(5 << 3 | 5) + value.tobytes() for value in VALUES) + shape_bytes(3),
    "double": _bytes(8, VALUES.astype("<f8").tobytes()) + shape_bytes(3),
    "double, one by one": b"".join(_varint(8 << 3 | 1) + v.astype("<f8").tobytes() for v in VALUES)
    + shape_bytes(3),
    "shape one by one": _bytes(5, VALUES.tobytes()) + _bytes(7, _number(1, 3)),
    "four sizes": _number(4, 3) + _number(1, 1) + _number(2, 1) + _number(3, 1) + _bytes(5, VALUES.tobytes()),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_an_array(tmp_path, form):
    path = tmp_path / "net.caffemodel"  # found by its name
    path.write_bytes(layer_bytes("Bias", FORMS[form]))
    graph = load(tmp_path, inputs(x=(2, 3)) + layer("Bias"))
    np.testing.assert_array_equal(stored(graph)["Bias/0"], VALUES)


@pytest.mark.parametrize("suffix", [".caffemodel", ".caffemodel.h5"])
def test_weights_beside_the_net_are_found(tmp_path, suffix):
    path = tmp_path / f"net{suffix}"
    if suffix.endswith("h5"):
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            for name, arrays in ARRAYS.items():
                for index, array in enumerate(arrays):
                    file[f"data/{name}/{index}"] = array
    else:
        path.write_bytes(caffemodel(LAYERS, generation=2))
    assert holds(load(tmp_path, NET))


def test_hdf5_names_with_slashes(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "net.caffemodel.h5", "w") as file:
        file["data/inception/3a/0"] = VALUES
    graph = load(tmp_path, inputs(x=(2, 3)) + layer("Bias").replace('name: "Bias"', 'name: "inception/3a"'))
    np.testing.assert_array_equal(stored(graph)["inception/3a/0"], VALUES)


def test_hdf5_has_a_shared_array_only_at_its_owner(tmp_path):
    h5py = pytest.importorskip("h5py")
    arrays = {"a/0": normal(4, 3), "a/1": normal(4), "b/1": normal(4, seed=1)}
    text = inputs(x=(2, 3), z=(2, 3)) + sharing()
    with h5py.File(tmp_path / "net.caffemodel.h5", "w") as file:
        for key, array in arrays.items():
            file[f"data/{key}"] = array
    found = stored(load(tmp_path, text))
    for key, array in arrays.items():
        np.testing.assert_array_equal(found[key], array)
    with h5py.File(tmp_path / "net.caffemodel.h5", "a") as file:
        del file["data/b/1"]
        file["data/b/0"] = arrays["a/0"]
    with pytest.raises(WeightError, match="layer 'b' has 2 arrays in the net, 1 in the file"):
        load(tmp_path, text)


def test_several_files_later_ones_win(tmp_path):
    (tmp_path / "a.caffemodel").write_bytes(
        caffemodel([("conv", "convolution", ARRAYS["conv"])], generation=2)
    )
    both = [("ip", "innerproduct", ARRAYS["ip"])]
    (tmp_path / "b.caffemodel").write_bytes(caffemodel(both, generation=1))
    assert holds(load(tmp_path, NET, weights=tmp_path / f"a.caffemodel,{tmp_path}/b.caffemodel"))


def test_layers_without_weights_are_drawn(tmp_path):
    (tmp_path / "net.caffemodel").write_bytes(caffemodel(LAYERS[:1], generation=2))
    graph = load(tmp_path, NET)
    assert {key: p.loaded for key, p in graph.parameters.items()} == {
        "conv/0": True, "conv/1": True, "ip/0": False, "ip/1": False,
    }  # fmt: skip
    assert not graph.loaded


def test_batch_norm_divides_by_its_factor(tmp_path):
    mean, variance = normal(3), 1 + normal(3) ** 2
    for factor, divisor in ((np.float32(4), 4), (np.float32(0), np.inf)):
        arrays = [mean * 4, variance * 4, np.full(1, factor)]
        (tmp_path / "net.caffemodel").write_bytes(
            caffemodel([("BatchNorm", "batchnorm", arrays)], generation=2)
        )
        graph = load(tmp_path, inputs(x=(2, 3)) + layer("BatchNorm"))
        x = normal(2, 3)
        expected = (x - mean * 4 / divisor) / np.sqrt(variance * 4 / divisor + 1e-5)
        np.testing.assert_allclose(run(graph, x=x)["y"], expected, rtol=1e-4)


def sharing(num_output=4, settings=""):
    """Two products whose weights are one array, as far as they fit: 4x3 and num_output x 6 or x 3."""
    first = 'param { name: "w" lr_mult: 3 } param { decay_mult: 0 } inner_product_param { num_output: 4 }'
    second = f'param {{ name: "w" {settings} }} inner_product_param {{ num_output: {num_output} }}'
    product = layer("InnerProduct", second, bottoms="z", tops="b").replace(
        'name: "InnerProduct"', 'name: "b"'
    )
    return layer("InnerProduct", first, tops="a").replace('name: "InnerProduct"', 'name: "a"') + product


def test_shared_arrays_are_one(tmp_path):
    graph = load(tmp_path, inputs(x=(2, 3), z=(2, 3)) + sharing())
    assert (graph.layers["a"].parameters, graph.layers["b"].parameters) == (("a/0", "a/1"), ("a/0", "b/1"))
    assert (graph.parameters["a/0"].lr_mult, graph.parameters["a/1"].decay_mult) == (3, 0)
    products = [node for node in graph.nodes if node.op_type == "Gemm"]
    assert products[0].inputs[1] is products[1].inputs[1]


def test_arrays_shared_with_other_sizes(tmp_path):
    head = inputs(x=(2, 3), z=(2, 6))
    shared = r"array 0 \(4x6\) is shared with a/0 \(4x3\); they must have"
    with pytest.raises(ShapeError, match=f"{shared} the same sizes"):
        load(tmp_path, head + sharing())
    with pytest.raises(ShapeError, match=f"{shared} as many elements"):
        load(tmp_path, head + sharing(settings="share_mode: PERMISSIVE"))
    graph = load(tmp_path, head + sharing(num_output=2, settings="share_mode: PERMISSIVE"))
    x, z = normal(2, 3), normal(2, 6)
    weight, bias = graph.values()["a/0"].const_value.numpy(), stored(graph)["b/1"]
    np.testing.assert_allclose(
        run(graph, x=x, z=z)["b"], z @ weight.reshape(2, 6).T + bias, rtol=1e-5, atol=1e-6
    )


def test_all_misfits_are_named_at_once(tmp_path):
    path = tmp_path / "w.caffemodel"
    wrong = [("conv", "convolution", [normal(2, 3, 5, 5), normal(2)]), ("ip", "innerproduct", [normal(5, 8)])]
    path.write_bytes(caffemodel(wrong, generation=2))
    net = str(tmp_path / "net.prototxt")
    message = (
        f"{path}: does not match {net}: layer 'conv' ({net}:2): array 0 is 2x3x3x3 in the net, "
        "2x3x5x5 in the file; layer 'ip' has 2 arrays in the net, 1 in the file. "
        "Does it belong to another net?"
    )
    with pytest.raises(WeightError, match=re.escape(message)):
        load(tmp_path, NET, weights=path)


def test_weights_of_another_net(tmp_path):
    path = tmp_path / "w.caffemodel"
    path.write_bytes(caffemodel([("other", "convolution", ARRAYS["conv"])], generation=2))
    with pytest.raises(
        WeightError, match=r"contains no weights for any layer of .*: it has 'other', the net 'conv', 'ip'"
    ):
        load(tmp_path, NET, weights=path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            layer_bytes("Bias", _bytes(5, VALUES.tobytes()) + shape_bytes(4)),
            "layer 'Bias', array 0: the sizes 4 need 4 values, but the file has 3",
        ),
        (
            layer_bytes("Bias", shape_bytes(2**31, 2**31)),
            "the sizes 2147483648x2147483648 need more values than an array may have, but the file has 0",
        ),
        (layer_bytes("Bias", _bytes(5, VALUES.tobytes()) + _number(1, 3) + _number(2, 2**40)), "the sizes"),
        (
            b"\x08\x01\x10\x01\x18\x01\x20\x03" + _bytes(5, VALUES.tobytes()),
            "holds a BlobProto, expected weights",
        ),
        (b"layer { name: 'x' }", "is a net in text form, expected weights"),
        (b"net: 'x' base_lr: 1", "holds a SolverParameter, expected weights"),
        (b"\x80\x02}q\x00.", "are not a complete NetParameter: truncated, damaged, or of another type"),
        (b"", "the file is empty"),
        (b"\x89HDF\r\n\x1a\n broken", "is not a complete HDF5 file"),
    ],
)
def test_what_is_no_file_of_weights(tmp_path, content, message):
    if b"HDF" in content:
        pytest.importorskip("h5py")
    path = tmp_path / "w.caffemodel"
    path.write_bytes(content)
    with pytest.raises((ReadError, WeightError)) as caught:
        load(tmp_path, inputs(x=(2, 3)) + layer("Bias"), weights=path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_hdf5_that_declares_more_than_it_holds(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "net.caffemodel.h5", "w") as file:
        file.create_dataset("data/Bias/0", shape=(2**16, 2**14), chunks=(64, 64), dtype="f4")
    with pytest.raises(ReadError, match=r"declares \[65536, 16384\], more than the file can hold"):
        load(tmp_path, inputs(x=(2, 3)) + layer("Bias"))


def test_hdf5_without_h5py(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    (tmp_path / "net.caffemodel.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    with pytest.raises(UsageError, match=f"is HDF5, which needs h5py: {re.escape(install_command('hdf5'))}"):
        load(tmp_path, NET)


@pytest.mark.timing
@given(cut=st.integers(1, 28162), data=st.data())
def test_a_cut_or_changed_file_is_refused_or_read(corpus, tmp_path_factory, cut, data):
    """det1.caffemodel cut anywhere, or with bytes changed: one typed error or a graph, at once."""
    whole = (corpus / "mtcnn" / "det1.caffemodel").read_bytes()
    content = bytearray(whole[: data.draw(st.sampled_from([cut, len(whole)]))])
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, min(len(content) - 1, 3000)))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "cut.caffemodel"
    path.write_bytes(content)
    begin = time.process_time()
    try:
        graph = read(Source(corpus / "mtcnn" / "det1.prototxt", weights=path))
    except NetweaveError as error:
        assert str(path) in str(error)  # noqa: PT017
    else:
        assert len(graph.layers) == 11
    assert time.process_time() - begin < 2


def test_mean_file(corpus):
    path = corpus / "caffe" / "history" / "src__caffe__test__test_data__sample_mean.binaryproto"
    mean = read_blob(path)
    assert mean.dtype == np.float32
    np.testing.assert_array_equal(mean, np.arange(300).reshape(1, 3, 10, 10))
    with pytest.raises(ReadError, match=r"is not a single array, expected a \.binaryproto"):
        read_blob(corpus / "mtcnn" / "det1.caffemodel")
