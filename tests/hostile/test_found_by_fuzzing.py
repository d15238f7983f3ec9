"""Files that the fuzzer found, each made by a script: one clear error for each."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import h5py
import numpy as np
import pytest

import netweave
from netweave.errors import ReadError, UnsupportedError, WeightError
from netweave.files.hdf5 import Group
from netweave.formats.keras.weights import LayerArrays
from netweave.job import DataSource, root_of_names
from netweave.runtime.images.decode import num_pixels
from netweave.training.data import open_source
from netweave.training.data.source import EndOfDataError, Source
from netweave.training.data.sources import images
from netweave.training.data.transforms.arithmetic import read_means
from tests.hostile.stores import stores
from tests.training.data.make import field, kvfile, singa_record


@pytest.mark.parametrize(
    ("member", "described"),
    [
        (Group("/model_weights/dense/kernel"), "a group ('/model_weights/dense/kernel')"),
        ("a text", "the text 'a text'"),
        (np.zeros((2, 3), bool), "an array of bool of the shape [2, 3]"),
    ],
)
def test_keras_weights_that_are_no_arrays(member, described):
    arrays = LayerArrays("net.h5", "dense", lambda inside, number: member)
    with pytest.raises(ReadError, match=f"^net.h5: contains {re.escape(described)}, expected an array"):
        arrays.take("kernel", (2, 3))


def test_a_group_where_keras_keeps_an_array(tmp_path):
    """The whole way: the array of a layer is replaced by a group."""
    from tests.hostile.nets import hdf5_nets

    net = hdf5_nets()["h5"]
    for name, content in net.files.items():
        (tmp_path / name).write_bytes(content)
    with h5py.File(tmp_path / net.damaged, "r+") as file:
        arrays = []
        file.visititems(lambda name, item: arrays.append(name) if isinstance(item, h5py.Dataset) else None)
        del file[arrays[0]]
        file.create_group(arrays[0])
    with pytest.raises(ReadError, match=r"contains a group .*, expected an array of numbers"):
        netweave.load(tmp_path / next(iter(net.files)))


def test_an_array_without_a_name(tmp_path):
    np.savez(tmp_path / "x.npz", **{"": np.zeros(3)})
    with pytest.raises(ReadError, match=r"x\.npz: holds an array without a name"):
        netweave.load(tmp_path / "x.npz")


def test_a_window_of_which_nothing_is_left(tmp_path, monkeypatch):
    """A window of one row outside the image: at 4 pixels, less than one is left of it."""
    monkeypatch.chdir(tmp_path)
    store = stores()["windows"]
    store.write(tmp_path, b"# 0\n0.png\n3\n5\n6\n2\n1 0.9 1 -900 3 0\n0 0.1 1 -900 3 0\n")
    with pytest.raises(ReadError, match=r"w:\d+: the window 1 -900 3 0 .* of .*0\.png"):
        store.read()


def test_a_directory_of_a_big_tiff_beyond_any_file():
    content = struct.pack("<2sHHHQ", b"II", 43, 8, 0, 2**64 - 1) + bytes(100)
    assert num_pixels(content) == 0


def test_several_images_of_means(tmp_path):
    sizes = b"".join(field(number, 0, size) for number, size in enumerate((3, 1, 5, 6), 1))
    (tmp_path / "mean.binaryproto").write_bytes(sizes + field(5, 2, np.ones(90, "<f4").tobytes()))
    with pytest.raises(ReadError, match=r"holds arrays of \[\(3, 1, 5, 6\)\], expected one image of means"):
        read_means(str(tmp_path / "mean.binaryproto"))


class _Failing(Source):
    place = "shelf"

    def __len__(self):
        return 1

    def read(self, index):
        raise [ZeroDivisionError("a library's"), EndOfDataError, ReadError("our own")][index]


class _Users(_Failing):
    stored = False

    def read(self, index):
        raise ZeroDivisionError


def test_every_source_has_a_border():
    """What a library raises over a record becomes a ReadError, whichever way the record is asked for."""
    for ask in ("read", "item", "peek"):
        with pytest.raises(ReadError, match=r"^shelf: is damaged.*ZeroDivisionError: a library's"):
            getattr(_Failing(), ask)(*([] if ask == "peek" else [0]))
    with pytest.raises(EndOfDataError):
        _Failing().read(1)
    with pytest.raises(ReadError, match=r"^our own$"):
        _Failing().read(2)
    with pytest.raises(ZeroDivisionError):
        _Users().read(0)


def test_errors_of_an_iterable_of_the_user_come_through():
    def records():
        yield np.zeros(3)
        raise ZeroDivisionError("the user's")

    wanted = DataSource("iterable", ("data",), 1, {"records": records()})
    with open_source(wanted) as source:
        source.read(0)
        with pytest.raises(ZeroDivisionError, match="the user's"):
            source.read(1)


def test_an_operator_of_mxnet_without_its_inputs(tmp_path):
    nodes = [
        {"op": "null", "name": "data", "inputs": []},
        {"op": "Concat", "name": "join", "attrs": {"num_args": "2"}, "inputs": []},
    ]
    content = {"nodes": nodes, "arg_nodes": [0], "heads": [[1, 0, 0]]}
    (tmp_path / "x-symbol.json").write_text(json.dumps(content))
    with pytest.raises(ReadError, match=r"layer 'join' \(Concat\): has 0 inputs, expected at least 1"):
        netweave.load(tmp_path / "x-symbol.json", input_shapes={"data": (1, 2)})


def test_a_name_that_is_longer_than_the_system_takes(tmp_path):
    assert root_of_names(tmp_path / "job.conf", ["x" * 5000]) == Path()


def test_a_slice_of_tensorflow_by_lists_of_other_lengths(tmp_path):
    def constant(name, numbers):
        content = "".join(f" int_val: {number}" for number in numbers)
        return (
            f'node {{ name: "{name}" op: "Const" attr {{ key: "dtype" value {{ type: DT_INT32 }} }} '
            f'attr {{ key: "value" value {{ tensor {{ dtype: DT_INT32 '
            f"tensor_shape {{ dim {{ size: {len(numbers)} }} }}{content} }} }} }} }}\n"
        )

    sliced = (
        'node { name: "y" op: "StridedSlice" input: "x" input: "a" input: "b" input: "c" '
        'attr { key: "T" value { type: DT_FLOAT } } attr { key: "Index" value { type: DT_INT32 } } }\n'
    )
    x = (
        'node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } '
        'attr { key: "shape" value { shape { dim { size: 2 } dim { size: 3 } } } } }\n'
    )
    text = x + constant("a", [0]) + constant("b", [1, 2, 3, 4]) + constant("c", [1]) + sliced
    (tmp_path / "net.pbtxt").write_text(text)
    reason = r"slices by 1 begins, 4 ends and 1 strides, expected as many of each"
    with pytest.raises(ReadError, match=reason):
        netweave.load(tmp_path / "net.pbtxt")


def test_a_type_of_numbers_that_numpy_lacks(tmp_path):
    """``f1``: a letter and a size that are fine by themselves."""
    np.save(tmp_path / "x.npy", np.array({"w": np.zeros(2, "f4")}), allow_pickle=True)
    content = (tmp_path / "x.npy").read_bytes()
    assert content.count(b"f4") == 1
    (tmp_path / "x.npy").write_bytes(content.replace(b"f4", b"f1"))
    with pytest.raises(UnsupportedError, match="has arrays of the type f1; only numbers are supported"):
        netweave.load(tmp_path / "x.npy")


def test_a_solver_whose_net_has_a_name_that_no_file_can_have(tmp_path):
    (tmp_path / "solver.prototxt").write_text(f'net: "{"1" * 300}" base_lr: 0.1 lr_policy: "fixed"\n')
    with pytest.raises(ReadError, match="names a net that does not exist: '111"):
        netweave.load_job(tmp_path / "solver.prototxt")


def test_weights_of_darknet_that_end_in_their_header(tmp_path):
    """Version 1024.2 has eight bytes of images seen behind it, of which there are four."""
    (tmp_path / "x.cfg").write_text("[net]\nheight=4\nwidth=4\nchannels=1\n[convolutional]\nfilters=1\n")
    (tmp_path / "x.weights").write_bytes(bytes.fromhex("0004000002000000 00000000 aefd0039"))
    with pytest.raises(WeightError, match="has 16 bytes, expected a header and float32 numbers"):
        netweave.load(tmp_path / "x.cfg", tmp_path / "x.weights")


def test_an_offset_with_a_control_character(tmp_path):
    """Python's ``strip`` takes the unit separator off, and ``int`` does not."""
    (tmp_path / "x.idx").write_bytes(b"0\t8\x1f\n")
    assert images._index(str(tmp_path / "x.idx")) == [("0", 8)]


@pytest.mark.parametrize("call", [{"args": [], "kwargs": [1]}, {"args": 3}, {"args": {"a": 1}}])
def test_arguments_of_a_keras_layer_that_are_none(tmp_path, call):
    layer = {"class_name": "ReLU", "name": "r", "config": {"name": "r"}, "inbound_nodes": [call]}
    model = {"class_name": "Functional", "config": {"name": "m", "layers": [layer], "input_layers": []}}
    (tmp_path / "x.json").write_text(json.dumps(model))
    with pytest.raises(ReadError, match=r"a call of the layer 'r' has .*, expected a list and a mapping"):
        netweave.load(tmp_path / "x.json")


def test_means_of_a_million_sizes(tmp_path):
    """Sizes of two bytes each became objects, a product of many digits, and a message that said them all."""
    record = singa_record(data=np.ones(4, "f4"), shape=(8842,) * 1_000_000)
    (tmp_path / "mean.bin").write_bytes(kvfile({"mean": record}))
    with pytest.raises(ReadError, match="has 1,000,000 sizes, expected at most 64"):
        read_means(str(tmp_path / "mean.bin"))


@pytest.mark.parametrize("setting", ["activation", "recurrent_activation"])
@pytest.mark.parametrize("value", [["tanh"], {"class_name": "Function", "config": ["tanh"]}, {"config": {}}])
def test_an_activation_of_a_recurrent_keras_layer_that_is_no_name(tmp_path, setting, value):
    """A list cannot be looked up in a table, which was a TypeError."""
    row = {"class_name": "InputLayer", "config": {"name": "row", "batch_shape": [None, 4, 2]}}
    lstm = {"class_name": "LSTM", "config": {"name": "lstm", "units": 3, setting: value}}
    content = {"class_name": "Sequential", "config": {"name": "m", "layers": [row, lstm]}}
    (tmp_path / "x.json").write_text(json.dumps(content))
    with pytest.raises(
        UnsupportedError, match=rf"'lstm'.*{setting}=.* is not supported in a recurrent layer"
    ):
        netweave.load(tmp_path / "x.json")
