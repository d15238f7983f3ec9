"""Arrays of a protobuf file that are read past protobuf; protobuf itself says what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netweave.errors import ReadError
from netweave.files import protobuf
from netweave.files.protobuf import Schema, without_large_fields
from netweave.files.protobuf_fields import write_field
from netweave.formats.caffe.schema import caffe_schema
from netweave.formats.caffe.weights import read_weights

if TYPE_CHECKING:
    from pathlib import Path

NET = caffe_schema().messages["NetParameter"]


@pytest.fixture
def everything_is_large(monkeypatch):
    monkeypatch.setattr(protobuf, "MIN_FILE_BYTES", 0)
    monkeypatch.setattr(protobuf, "MIN_ARRAY_BYTES", 16)


def blob(array: np.ndarray, field: str = "data") -> dict:
    return {"shape": {"dim": list(array.shape)}, field: array.reshape(-1)}


def written(path: Path, layers: list[dict], field: str = "layer") -> Path:
    path.write_bytes(caffe_schema().encode("NetParameter", {"name": "net", field: layers}))
    return path


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=6),
    kinds=st.lists(st.sampled_from(["data", "double_data", "diff"]), min_size=6, max_size=6),
    is_old=st.booleans(),
)
def test_a_message_is_the_one_that_is_parsed_whole(sizes, kinds, is_old, tmp_path_factory):
    random = np.random.default_rng(sum(sizes))
    layers = [
        {"name": f"l{index}", "blobs": [blob(random.standard_normal(size), kind), blob(np.ones(2))]}
        for index, (size, kind) in enumerate(zip(sizes, kinds, strict=False))
    ]
    path = written(tmp_path_factory.mktemp("net") / "net.caffemodel", layers, "layers" if is_old else "layer")
    whole = caffe_schema().decode("NetParameter", path.read_bytes(), place="net")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protobuf, "MIN_FILE_BYTES", 0)
        patch.setattr(protobuf, "MIN_ARRAY_BYTES", 16)
        found = caffe_schema().decode_file("NetParameter", path, place="net")
    assert str(found.to_json()) == str(whole.to_json())


def test_protobuf_is_given_no_array_and_no_file_is_read_whole(tmp_path, everything_is_large, monkeypatch):
    array = np.random.default_rng(0).standard_normal((40, 50)).astype(np.float32)
    path = written(tmp_path / "net.caffemodel", [{"name": "conv", "blobs": [blob(array)]}])
    slim = without_large_fields(path, NET)
    assert slim is not None
    assert len(slim) < 200 < array.nbytes
    assert array.tobytes()[:64] not in slim
    monkeypatch.setattr(protobuf, "read_bytes", None)  # a call would fail
    loaded = read_weights(path).layers["conv"][0].load()
    np.testing.assert_array_equal(loaded, array)


def test_an_array_in_two_pieces_is_one(tmp_path, everything_is_large):
    schema = Schema("message Blob\n  5 data float[packed]")
    one, other = np.arange(9, dtype=np.float32), np.arange(3, dtype=np.float32)
    path = tmp_path / "blob"
    path.write_bytes(write_field(5, one.tobytes()) + write_field(5, other.tobytes()))
    found = schema.decode_file("Blob", path, place="blob")["data"]
    np.testing.assert_array_equal(found, [*one, *other])


def test_a_file_cannot_name_a_place(tmp_path, everything_is_large):
    """Bytes that look like a mark are numbers as all others are."""
    mark = b"\0" * 16 + (0).to_bytes(8, "little") + (64).to_bytes(8, "little")
    array = np.frombuffer(mark, np.float32)
    path = written(tmp_path / "net.caffemodel", [{"name": "conv", "blobs": [blob(array)]}])
    np.testing.assert_array_equal(read_weights(path).layers["conv"][0].load(), array)


def test_numbers_that_are_stored_one_by_one_are_parsed_whole(tmp_path, everything_is_large, monkeypatch):
    monkeypatch.setattr(protobuf, "MAX_FIELDS", 10)
    one_by_one = b"".join(bytes([5 << 3 | 5]) + np.float32(i).tobytes() for i in range(20))
    sizes = write_field(7, write_field(1, bytes([20])))
    layer = write_field(1, b"conv") + write_field(7, sizes + one_by_one)
    path = tmp_path / "net.caffemodel"
    path.write_bytes(write_field(100, layer))
    assert without_large_fields(path, NET) is None
    np.testing.assert_array_equal(read_weights(path).layers["conv"][0].load(), np.arange(20))


@pytest.mark.parametrize("end", [10, 100, 900])
def test_a_file_cut_short_is_refused_as_when_it_is_parsed_whole(end, tmp_path, everything_is_large):
    layers = [{"name": "conv", "blobs": [blob(np.ones(300, np.float32))]}]
    content = written(tmp_path / "net.caffemodel", layers).read_bytes()
    cut = tmp_path / "cut.caffemodel"
    cut.write_bytes(content[:end])
    with pytest.raises(ReadError, match="are not a complete NetParameter"):
        read_weights(cut)


def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path, everything_is_large, monkeypatch):
    path = written(tmp_path / "net.caffemodel", [{"name": "conv", "blobs": [blob(np.ones(300, np.float32))]}])
    slim = without_large_fields(path, NET)
    path.write_bytes(path.read_bytes()[:50])
    monkeypatch.setattr(protobuf, "without_large_fields", lambda *_: slim)
    with pytest.raises(ReadError, match="was changed while it was read"):
        read_weights(path)
