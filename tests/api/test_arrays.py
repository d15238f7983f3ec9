"""Arrays from files, to files, and drawn."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from netweave import api
from netweave.errors import ReadError, UsageError, WriteError
from netweave.graph import GraphBuilder


def net(*shapes, dtype=ir.DataType.FLOAT):
    builder = GraphBuilder("net", format="onnx")
    inputs = [builder.input(f"in{i}", shape, dtype=dtype) for i, shape in enumerate(shapes)]
    return builder.finish([builder.add("Relu", [inputs[0]], outputs="out")])


@pytest.mark.parametrize("names", [["data"], ["conv1/relu", "file", "allow_pickle"]])
def test_npz_keeps_names_and_values(tmp_path, names):
    arrays = {name: np.arange(6, dtype=np.float32).reshape(2, 3) + i for i, name in enumerate(names)}
    api.save_arrays(tmp_path / "x.npz", arrays)
    found = api.load_arrays(tmp_path / "x.npz", [])
    assert list(found) == names
    for name in names:
        np.testing.assert_array_equal(found[name], arrays[name])


def test_npy_is_the_only_array(tmp_path):
    file = tmp_path / "x.npy"
    api.save_arrays(file, {"out": np.ones((1, 2))})
    assert api.load_arrays(file, ["data"])["data"].tolist() == [[1, 1]]
    with pytest.raises(UsageError, match="holds one array, expected a, b"):
        api.load_arrays(file, ["a", "b"])
    with pytest.raises(UsageError, match=r"holds one array, but there are 2; write an .npz"):
        api.save_arrays(file, {"a": np.ones(1), "b": np.ones(1)})


def test_pickled_objects_are_not_loaded(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ReadError, match=r"x.npy: holds objects of Python"):
        api.load_arrays(tmp_path / "x.npy", ["data"])


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x93NUMPY", b"text"])
def test_broken_file_is_a_read_error(tmp_path, content):
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(ReadError, match=r"not an .npy or .npz|is not a complete .np[yz] file"):
        api.load_arrays(tmp_path / "x.npz", ["data"])


def test_missing_file_and_wrong_suffix(tmp_path):
    with pytest.raises(ReadError, match="there is no such file"):
        api.load_arrays(tmp_path / "none.npz", [])
    with pytest.raises(UsageError, match=r"unknown suffix, expected .npz, .npy, .h5"):
        api.save_arrays(tmp_path / "x.png", {"a": np.ones(1)})
    with pytest.raises(WriteError, match="cannot be written"):
        api.save_arrays(tmp_path / "no" / "x.npz", {"a": np.ones(1)})


def test_drawn_inputs_have_the_declared_sizes_and_follow_the_seed():
    graph = net((4, 3, 5, 5), (None, 2))
    first, again, other = (api.draw_inputs(graph, seed) for seed in (1, 1, 2))
    assert {name: array.shape for name, array in first.items()} == {"in0": (4, 3, 5, 5), "in1": (4, 2)}
    np.testing.assert_array_equal(first["in0"], again["in0"])
    assert not np.array_equal(first["in0"], other["in0"])


def test_inputs_that_share_a_batch_share_its_size():
    drawn = api.draw_inputs(net((None, 2), (6, 3)), 1)
    assert {name: array.shape for name, array in drawn.items()} == {"in0": (6, 2), "in1": (6, 3)}


def test_a_batch_that_is_asked_for_is_for_all_inputs_whatever_their_files_declare():
    drawn = api.draw_inputs(net((4, 3, 5, 5), (None, 2)), 1, batch=7)
    assert {name: array.shape for name, array in drawn.items()} == {"in0": (7, 3, 5, 5), "in1": (7, 2)}


def test_drawn_whole_numbers_are_zero():
    drawn = api.draw_inputs(net((2, 3), dtype=ir.DataType.INT64), 1)["in0"]
    assert (drawn.dtype, drawn.any()) == (np.int64, False)


def test_unknown_size_is_asked_for():
    with pytest.raises(
        UsageError, match=r"size of input 'in0' is unknown .*; set it with --input-shape in0=SIZES"
    ):
        api.draw_inputs(net((1, 3, None, 5)), 1)
