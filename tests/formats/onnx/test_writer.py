"""Writing and reading again: tables, arrays and outputs come back; files stay whole."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from netweave.errors import ReadError, UsageError, WriteError
from netweave.files import Source
from netweave.files.onnx import model
from netweave.formats.onnx import writer
from netweave.formats.onnx.reader import read
from netweave.formats.onnx.writer import write
from netweave.graph import GraphBuilder, Layer, Origin, Parameter, layer_keys, parameter_key, parameter_layout
from netweave.graph.ops.pooling import pooling
from tests.formats.onnx.models import normal, run


def small(*, weights: bool = True, odd_pooling: bool = False):
    """A net as a reader of another framework would build it."""
    builder = GraphBuilder("small", format="caffe", files=["small.prototxt", "small.caffemodel"])
    x = builder.input("data", [10, 3, 9, 9])
    settings = {"num_output": 4, "kernel_size": [3], "weight_filler": {"type": "xavier"}}
    origin = Origin("small.prototxt", 7)
    conv = Layer("conv1", "conv1", "Convolution", settings, ("data",), ("conv1",), ("conv1/0",), origin)
    with builder.layer(conv):
        entry = Parameter("conv1/0", (3, 3, 3, 4), filler={"type": "xavier"}, lr_mult=2.0, loaded=weights)
        array = normal(3, 3, 3, 4) if weights else None
        w = builder.parameter(entry, array, layout=[("transpose", (3, 2, 0, 1))])
        x = builder.add("Conv", [x, w], {"kernel_shape": [3, 3]}, outputs="conv1")
    with builder.layer(Layer("pool1", "pool1", "Pooling", {"pool": "MAX"}, ("conv1",), ("pool1",))):
        rounding = "full" if odd_pooling else "floor"
        domain, op_type, attributes = pooling(
            False, kernel=[2, 2], strides=[3, 3], pads=[0] * 4, rounding=rounding, count_include_pad=True
        )
        x = builder.add(op_type, [x], attributes, domain=domain, outputs="pool1")
    builder.layers.add(Layer("silence", "silence", "Silence", call=1))
    graph = builder.finish([x])
    graph.notes = ("a note",)
    return graph


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("odd_pooling", [True, False])
def test_everything_comes_back(weights, odd_pooling, tmp_path):
    graph = small(weights=weights, odd_pooling=odd_pooling)
    write(graph, tmp_path / "small.onnx", random_weights=not weights)
    back = read(Source(tmp_path / "small.onnx"))
    assert list(back.layers.items()) == list(graph.layers.items())
    for key, parameter in graph.parameters.items():  # drawn values that lie in a file are first values
        assert back.parameters[key] == replace(parameter, loaded=True, initial=not weights)
    assert back.declared == graph.declared
    assert (back.name, back.format, back.notes) == ("small", "caffe", graph.notes)
    assert back.files == (str(tmp_path / "small.onnx"),)
    assert (back.loaded, back.initial) == (True, not weights)
    for old, new in zip(graph.nodes, back.nodes, strict=True):
        assert (new.name, new.domain, new.op_type) == (old.name, old.domain, old.op_type)
        assert layer_keys(new) == layer_keys(old)
        assert {k: a.value for k, a in new.attributes.items()} == {
            k: a.value for k, a in old.attributes.items()
        }
    assert {name: str(v.shape) for name, v in back.values().items()} == {
        name: str(v.shape) for name, v in graph.values().items()
    }
    for name, value in graph.model.graph.initializers.items():
        copy = back.model.graph.initializers[name]
        np.testing.assert_array_equal(copy.const_value.numpy(), value.const_value.numpy())
        assert (parameter_key(copy), parameter_layout(copy)) == (
            parameter_key(value),
            parameter_layout(value),
        )


def test_what_is_written_is_valid_onnx_and_computes_the_same(tmp_path):
    graph = small()
    write(graph, tmp_path / "small.onnx")
    onnx.checker.check_model(str(tmp_path / "small.onnx"), full_check=True)
    x = normal(2, 3, 9, 9)
    ours = run(ir.to_proto(graph.model), {"data": x})
    np.testing.assert_array_equal(run(onnx.load(tmp_path / "small.onnx"), {"data": x})[0], ours[0])


def test_writing_leaves_the_graph_as_it_was(tmp_path):
    graph = small()
    before = ir.to_proto(graph.model).SerializeToString(deterministic=True)
    write(graph, tmp_path / "small.onnx")
    assert ir.to_proto(graph.model).SerializeToString(deterministic=True) == before


def test_a_net_without_weights_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"'small' has no weights for 1 of 1 parameters \('conv1/0'\)"):
        write(small(weights=False), tmp_path / "small.onnx")
    assert list(tmp_path.iterdir()) == []


def test_large_weights_go_beside_the_net(tmp_path, monkeypatch):
    monkeypatch.setattr(model, "MAX_INSIDE_BYTES", 100)
    monkeypatch.setattr(model, "MIN_OUTSIDE_BYTES", 10)
    graph = small()
    write(graph, tmp_path / "small.onnx")
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "small.onnx",
        "small.onnx.data",
        "small.onnx.data.sha256",
    ]
    back = read(Source(tmp_path / "small.onnx"))
    w = back.model.graph.initializers["conv1/0"].const_value
    assert isinstance(w, ir.ExternalTensor)
    np.testing.assert_array_equal(w.numpy(), normal(3, 3, 3, 4).transpose(3, 2, 0, 1))
    monkeypatch.undo()
    (tmp_path / "other").mkdir()
    write(back, tmp_path / "other" / "whole.onnx")
    assert [file.name for file in (tmp_path / "other").iterdir()] == ["whole.onnx"]
    assert read(Source(tmp_path / "other" / "whole.onnx")).parameters == graph.parameters


def test_an_old_file_stays_whole_if_writing_fails(tmp_path, monkeypatch):
    path = tmp_path / "small.onnx"
    path.write_bytes(b"old")

    def fail(model, target):
        target.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer, "save", fail)
    with pytest.raises(WriteError, match=r"small\.onnx: cannot be written: No space left on device"):
        write(small(), path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_of_a_version_that_knew_fewer_fields_is_read(tmp_path):
    path = tmp_path / "small.onnx"
    write(small(), path)
    expected = read(Source(path)).parameters
    model = onnx.load(path)
    for row in model.metadata_props:
        if row.key == "netweave.parameters":
            rows = json.loads(row.value)
            row.value = json.dumps([{k: v for k, v in one.items() if k != "open_axes"} for one in rows])
    onnx.save(model, path)
    assert read(Source(path)).parameters == expected


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("netweave.layers", "[{}]"),
        ("netweave.layers", "{"),
        ("netweave.layers", "[" * 100_000),
        ("netweave.net", "[]"),
        ("netweave.parameters", '[{"key": 1}]'),
        ("netweave.initializers", '{"conv1/0": ["gone", []]}'),
    ],
)
def test_damaged_metadata_are_said_to_be(key, text, tmp_path):
    path = tmp_path / "small.onnx"
    write(small(), path)
    proto = onnx.load(path)
    next(entry for entry in proto.metadata_props if entry.key == key).value = text
    onnx.save(proto, path)
    with pytest.raises(ReadError, match="netweave"):
        read(Source(path))
