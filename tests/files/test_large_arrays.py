"""Arrays of an ONNX file that are read past protobuf; onnx itself says what they are."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from netweave.errors import NetweaveError, ReadError
from netweave.files.onnx import tensors
from netweave.files.onnx.model import is_as_sealed, parse, to_model, write_sealed
from netweave.files.protobuf_fields import BYTES, Span, field_spans, outer_fields

if TYPE_CHECKING:
    from pathlib import Path

TYPES = [np.float32, np.float64, np.float16, np.int32, np.int64, np.int8, np.bool_]


@pytest.fixture
def everything_is_large(monkeypatch):
    monkeypatch.setattr(tensors, "MIN_FILE_BYTES", 0)
    monkeypatch.setattr(tensors, "MIN_ARRAY_BYTES", 16)


def model_of(arrays) -> onnx.ModelProto:
    """A net that reads some arrays, some of them stored as numbers and not as bytes."""
    stored = []
    for index, (array, as_numbers) in enumerate(arrays):
        name = f"w{index}"
        if as_numbers and array.dtype in (np.float32, np.int64, np.int32, np.float64):
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            stored.append(helper.make_tensor(name, kind, array.shape, array.reshape(-1).tolist()))
        else:
            stored.append(numpy_helper.from_array(array, name))
    nodes = [helper.make_node("Identity", [t.name], [f"y{i}"], name=f"n{i}") for i, t in enumerate(stored)]
    outputs = [helper.make_tensor_value_info(f"y{i}", t.data_type, None) for i, t in enumerate(stored)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    graph = helper.make_graph(nodes, "net", [x], outputs, stored, doc_string="kept")
    return helper.make_model(graph, producer_name="somebody", opset_imports=[helper.make_opsetid("", 17)])


def arrays_read(path: Path) -> dict[str, np.ndarray]:
    model = to_model(parse(path), path)
    return {name: value.const_value.numpy() for name, value in model.graph.initializers.items()}


@st.composite
def some_arrays(draw):
    rows = []
    for _ in range(draw(st.integers(1, 5))):
        shape = draw(st.lists(st.integers(0, 7), max_size=3))
        values = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 2**7, shape)
        rows.append((values.astype(draw(st.sampled_from(TYPES))), draw(st.booleans())))
    return rows


@settings(max_examples=60, deadline=None)
@given(arrays=some_arrays())
def test_arrays_are_those_that_onnx_reads(arrays, tmp_path_factory):
    path = tmp_path_factory.mktemp("net") / "net.onnx"
    onnx.save(model_of(arrays), path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tensors, "MIN_FILE_BYTES", 0)
        patch.setattr(tensors, "MIN_ARRAY_BYTES", 16)
        found = arrays_read(path)
    for tensor in onnx.load(path).graph.initializer:
        expected = numpy_helper.to_array(tensor)
        assert found[tensor.name].dtype == expected.dtype
        np.testing.assert_array_equal(found[tensor.name], expected)


def test_the_message_is_small_and_the_rest_is_kept(tmp_path, everything_is_large):
    path = tmp_path / "net.onnx"
    onnx.save(model_of([(np.ones((100, 100), np.float32), False), (np.ones(2, np.float32), False)]), path)
    content = tensors.without_large_arrays(path)
    assert content is not None
    assert len(content) < 1000 < path.stat().st_size
    slim, whole = onnx.ModelProto.FromString(content), onnx.load(path)
    assert not slim.graph.initializer[0].raw_data
    slim.graph.initializer[0].CopyFrom(whole.graph.initializer[0])
    assert slim == whole


def test_small_files_are_parsed_whole(tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(model_of([(np.ones(20_000, np.float32), False)]), path)
    assert tensors.without_large_arrays(path) is None


def test_a_wrong_number_of_bytes_is_said_as_for_small_arrays(tmp_path, everything_is_large):
    path = tmp_path / "net.onnx"
    model = model_of([(np.ones((8, 8), np.float32), False)])
    model.graph.initializer[0].dims[0] = 9
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ReadError, match=r"'w0': has 256 bytes, expected 288 for 9x8 of FLOAT"):
        parse(path)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damaged_files_end_as_they_do_when_parsed_whole(data, tmp_path_factory):
    content = bytearray(model_of([(np.ones((8, 8), np.float32), False)] * 2).SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(1, len(content)))]
    path = tmp_path_factory.mktemp("net") / "net.onnx"
    path.write_bytes(content)
    ends = []
    for least in (1 << 40, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tensors, "MIN_FILE_BYTES", least)
            patch.setattr(tensors, "MIN_ARRAY_BYTES", 16)
            try:
                ends.append({name: array.tobytes() for name, array in arrays_read(path).items()})
            except NetweaveError as error:
                ends.append((type(error), str(error)))
    assert ends[0] == ends[1]


def test_a_file_that_names_the_place_itself_names_a_missing_file(tmp_path, everything_is_large):
    """What stands for the file itself is drawn by each process anew."""
    path = tmp_path / "net.onnx"
    model = model_of([(np.ones((8, 8), np.float32), False)])
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="<the file itself 0123456789abcdef>")
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ReadError, match="is missing from the folder of the net"):
        parse(path)


@given(arrays=some_arrays())
@settings(max_examples=50)
def test_a_message_is_written_as_protobuf_writes_it(arrays):
    """Part by part, with arrays of any size and type past protobuf."""
    message = model_of(arrays)
    whole = ir.to_proto(ir.from_proto(message))
    model = ir.from_proto(message)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tensors, "MIN_ARRAY_BYTES", 16)
        held = tensors.leave_out_large_arrays(model)
        parts = list(tensors.with_large_arrays(ir.to_proto(model).SerializeToString(), held))
    plain = {np.dtype(kind) for kind in TYPES[:5]}
    assert len(held) == sum(x.dtype in plain and x.nbytes >= 16 for x, _ in arrays)
    assert sum(isinstance(part, memoryview) for part in parts) == len(held)
    written = onnx.ModelProto.FromString(b"".join(parts))
    for stored in (written.graph.initializer, whole.graph.initializer):
        for tensor in stored:  # whole numbers may be stored one by one
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    assert written == whole


def test_a_seal_is_checked_part_by_part(tmp_path):
    path = tmp_path / "net.onnx"
    whole = bytes(range(256)) * 10_000
    path.write_bytes(whole)
    assert is_as_sealed(path)
    write_sealed(path, [whole[:70], memoryview(whole)[70:]])
    assert is_as_sealed(path)
    assert path.read_bytes().startswith(whole)
    content = bytearray(path.read_bytes())
    content[1_500_000] ^= 1
    path.write_bytes(content)
    assert not is_as_sealed(path)
    path.write_bytes(b"short")
    assert is_as_sealed(path)


@given(content=st.binary(max_size=60))
def test_fields_are_the_outer_fields_or_the_message_is_none(content, tmp_path_factory):
    try:
        spans = list(field_spans(content, Span(0, BYTES, 0, 0, len(content))))
    except ValueError:
        return
    assert [(s.number, s.wire_type) for s in spans] == [row[:2] for row in outer_fields(content)]
    assert b"".join(content[s.begin : s.end] for s in spans) == content


def test_a_mapped_file_has_the_fields_of_its_bytes(tmp_path):
    content = model_of([(np.ones(9, np.float32), False)]).SerializeToString()
    (tmp_path / "net.onnx").write_bytes(content)
    whole = Span(0, BYTES, 0, 0, len(content))
    with (tmp_path / "net.onnx").open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as held:
        assert list(field_spans(held, whole)) == list(field_spans(content, whole))
