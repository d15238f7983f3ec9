"""Files of arrays in every version, and damaged ones."""

from __future__ import annotations

import resource
import struct
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from netweave.errors import NetweaveError, ReadError, UnsupportedError
from netweave.formats.mxnet.ndarray import read_arrays
from tests.oracles import mxnet_params, recipe

GOLDEN = Path(__file__).parents[2] / "golden" / "mxnet_params"
TYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool", "int16", "uint64")


def read_content(folder, content):
    path = folder / "net-0001.params"
    path.write_bytes(content)
    return read_arrays(path)


@settings(max_examples=60)
@given(
    version=st.integers(0, 3),
    arrays=st.dictionaries(
        st.text(min_size=1, max_size=6),
        st.sampled_from(TYPES).flatmap(
            lambda dtype: hnp.arrays(dtype, hnp.array_shapes(max_dims=4, min_side=0))
        ),
        max_size=4,
    ),
)
def test_every_version_is_read_as_it_was_written(tmp_path_factory, version, arrays):
    content = mxnet_params.params(arrays, version=version)
    found = read_content(tmp_path_factory.mktemp("params"), content)
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("name", ["v2.params", "v3.params"])
def test_files_of_mxnet_are_read(name):
    found = read_arrays(GOLDEN / name)
    for dtype in ("float32", "float64", "float16", "uint8", "int32", "int8", "int64"):
        expected = recipe.draw(f"arg:{dtype}", (2, 3), "integers 100").astype(dtype)
        assert found[dtype].dtype == expected.dtype
        np.testing.assert_array_equal(found[dtype], expected)


def test_numbers_without_axes_are_kept_in_version_3():
    found = read_arrays(GOLDEN / "v3.params")
    assert found["arg:scalar"].shape == ()
    assert found["arg:scalar"] == 1.5
    assert found["arg:none"].shape == (0, 2)


def test_sparse_arrays_are_made_dense():
    values = recipe.draw("rows", (2, 3))
    found = read_arrays(GOLDEN / "sparse.params")
    rows = np.zeros((5, 3), np.float32)
    rows[[1, 3]] = values
    np.testing.assert_array_equal(found["arg:rows"], rows)
    a, b, c, d = values.ravel()[:4]
    np.testing.assert_array_equal(found["arg:csr"], [[a, 0, b], [0, c, 0], [d, 0, 0]])


def test_the_oldest_file_of_the_corpus(corpus):
    found = read_arrays(corpus / "mxnet/0.11.0/tests__python__unittest__legacy_ndarray.v0")
    assert list(found) == ["0", "1", "2", "3", "4", "5"]
    for array in found.values():
        np.testing.assert_array_equal(array, np.arange(128, dtype=np.float32))


def test_bfloat16_is_read(tmp_path):
    numbers = np.array([1.0, -2.5], np.float32)
    halves = (numbers.view(np.uint32) >> 16).astype(np.uint16)
    content = mxnet_params.params({"arg:x": halves}).replace(struct.pack("<i", 9), struct.pack("<i", 12))
    np.testing.assert_array_equal(read_content(tmp_path, content)["arg:x"].astype(np.float32), numbers)


HEAD = struct.pack("<QQQ", 0x112, 0, 1)
DENSE = struct.pack("<Ii", 0xF993FAC9, 0)
CPU_FLOAT = struct.pack("<iii", 1, 0, 0)


def sizes(*shape):
    return struct.pack(f"<i{len(shape)}q", len(shape), *shape)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"\x80\x04\x95", r"is no MXNet .params file: it starts with b'\\x80"),
        (HEAD[:10], "ends in the header"),
        (struct.pack("<QQQ", 0x112, 0, 2**62), "says that it holds 4,611,686,018,427,387,904 arrays"),
        (HEAD, "ends in array 0 of 1: 4 bytes expected"),
        (HEAD + DENSE + sizes(2**31, 2**31) + CPU_FLOAT, "18,446,744,073,709,551,616 bytes expected"),
        (HEAD + DENSE + sizes(-5, 2) + CPU_FLOAT, r"has the shape \(-5, 2\); the file is damaged"),
        (HEAD + DENSE + struct.pack("<i", 2**30), "has rank 1073741824, expected 0 to 32"),
        (HEAD + struct.pack("<I", 2**31 + 5), "has rank 2147483653"),
        (HEAD + struct.pack("<Ii", 0xF993FAC9, 7), "has storage type 7"),
        (
            HEAD + DENSE + sizes(2) + CPU_FLOAT + b"\0" * 7,
            r"8 bytes expected for the shape \(2,\) of float32, 7",
        ),
        (HEAD + DENSE + sizes(1) + CPU_FLOAT + b"\0" * 4 + struct.pack("<Q", 5), "has 5 names for 1 arrays"),
        (mxnet_params.params({"a": np.zeros(3)})[:-1], "ends in the names"),
    ],
    ids=range(13),
)
def test_damaged_files_are_named_for_what_they_are(tmp_path, content, message):
    with pytest.raises(ReadError, match=message):
        read_content(tmp_path, content)


def test_two_arrays_of_one_name_are_refused(tmp_path):
    content = mxnet_params.params({"a": np.zeros(1), "b": np.zeros(1)})
    with pytest.raises(ReadError, match="two arrays are named 'a'"):
        read_content(tmp_path, content.replace(b"b", b"a"))


def test_an_unknown_element_type_is_refused(tmp_path):
    content = HEAD + DENSE + sizes(1) + struct.pack("<iii", 1, 0, 99)
    with pytest.raises(UnsupportedError, match="element type 99, expected 0 to 12"):
        read_content(tmp_path, content)


def test_a_sparse_array_that_is_huge_when_dense_is_refused(tmp_path):
    values = np.ones((1, 3), np.float32)
    content = mxnet_params.params({"a": mxnet_params.row_sparse(values, np.array([0]), (2**40, 3))})
    with pytest.raises(UnsupportedError, match=r"3,298,534,883,328 elements when made dense"):
        read_content(tmp_path, content)


@pytest.mark.parametrize(
    ("rows", "shape"), [([7], (5, 3)), ([-9], (5, 3)), ([0], (5, 4)), ([0, 1], (5, 3)), ([-1], (5, 3))]
)
def test_indices_that_do_not_fit_are_refused(tmp_path, rows, shape):
    record = mxnet_params.row_sparse(np.ones((1, 3), np.float32), np.array(rows), shape)
    with pytest.raises(ReadError, match=r"indices that do not fit the shape"):
        read_content(tmp_path, mxnet_params.params({"a": record}))


@pytest.mark.parametrize("rows", [np.array(1), np.array([[1]])])
def test_indices_that_are_no_list_are_refused(tmp_path, rows):
    record = mxnet_params.row_sparse(np.ones((1, 3), np.float32), rows, (5, 3))
    with pytest.raises(ReadError, match=r"indices that do not fit the shape"):
        read_content(tmp_path, mxnet_params.params({"a": record}))


@pytest.mark.timing
@given(data=st.data())
def test_changed_bytes_give_arrays_or_one_clear_error(tmp_path_factory, data):
    content = bytearray((GOLDEN / data.draw(st.sampled_from(["v2.params", "sparse.params"]))).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)))]
    start, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        read_content(tmp_path_factory.mktemp("params"), bytes(content))
    except NetweaveError as error:
        assert "net-0001.params: " in str(error)  # noqa: PT017 (any other outcome is a failure too)
    assert time.process_time() - start < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 500_000
