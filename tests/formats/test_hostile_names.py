"""Layers with names that no writer expects: what each writer makes is read back, and computes the same."""

from __future__ import annotations

import time

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from netweave import api
from netweave.errors import ReadError

NAMES = {
    "no letter at all": ["é", "-", "_"],
    "long": ["n" * 1000, "m" * 450],
    "dots": ["a.b", ".", "..", "..."],
    "slashes": ["a/b", "/", "//", "../../x"],
    "control characters": ["a\tb", "a\x01b", "a\x00b", "a\u202eb"],
    "quotes": ['a"b', "a'b", "a\\b", "{x}", "%s", "#"],
    "keywords": ["class", "import", "self", "x"],
    "equal but for case": ["A", "a"],
}


def net(names: list[str]) -> bytes:
    nodes, stored, last = [], [], "x"
    for number, name in enumerate(names):
        weight = np.random.default_rng(number).random((4, 4), np.float32)
        stored.append(numpy_helper.from_array(weight, f"{name}.weight"))
        nodes.append(helper.make_node("Gemm", [last, f"{name}.weight"], [f"v{number}"], name=name))
        nodes.append(helper.make_node("Relu", [f"v{number}"], [f"{name}!"], name=f"{name}!"))
        last = f"{name}!"
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 4]) for name in ("x", last)]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString()


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize(
    ("file", "options"),
    [
        ("net.onnx", {}),
        ("net.prototxt", {}),
        ("net-symbol.json", {}),
        pytest.param("net.py", {"to": "pytorch"}, marks=pytest.mark.slow),
        pytest.param("net.py", {"to": "keras"}, marks=pytest.mark.slow),
    ],
)
def test_what_is_written_is_read_back(tmp_path, kind, file, options):
    (tmp_path / "in.onnx").write_bytes(net(NAMES[kind]))
    graph = api.load(tmp_path / "in.onnx")
    x = np.random.default_rng(9).random((1, 4), np.float32)
    (tmp_path / "out").mkdir()
    api.save(graph, tmp_path / "out" / file, **options)
    weights = tmp_path / "out" / "net-0000.params"
    back = api.load(tmp_path / "out" / file, *([weights] if weights.exists() else []))
    (expected,) = api.run(graph, {"x": x}).values()
    (found,) = api.run(back, {str(back.inputs[0].name): x}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_an_external_file_whose_name_is_not_utf_8_is_named(tmp_path):
    tensor = onnx.TensorProto(name="w", dims=[4, 4], data_type=1, data_location=1)
    tensor.external_data.add(key="location", value="LLLL")
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 4]) for name in "xy"]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    model = helper.make_model(helper.make_graph([node], "net", ends[:1], ends[1:], [tensor]))
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString().replace(b"LLLL", b"\xff\xfeLL"))
    with pytest.raises(ReadError, match=r"holds the name b'\\xff\\xfeLL', which is not UTF-8"):
        api.load(path)


def test_arrays_in_the_other_byte_order_are_read(tmp_path):
    values = np.arange(6, dtype=">f4").reshape(2, 3)
    np.savez(tmp_path / "net.npz", **{"a/weight": values})
    graph = api.load(tmp_path / "net.npz")
    stored = graph.model.graph.initializers["a/weight"].const_value
    assert stored is not None
    np.testing.assert_array_equal(stored.numpy(), values)


def test_arrays_of_more_than_64_bits_are_refused(tmp_path):
    np.savez(tmp_path / "net.npz", **{"a/weight": np.ones(3, np.longdouble)})
    with pytest.raises(ReadError, match="'a/weight' holds float128, expected numbers of at most 64 bits"):
        api.load(tmp_path / "net.npz")


@pytest.mark.parametrize("axis", [0, 1])
def test_a_concatenation_of_many_values_of_open_size_is_read_at_once(tmp_path, axis):
    """The formula of the joined size was copied for each of its 50,000 terms: time by the square."""
    shape = ["N", "M"]
    ends = [helper.make_tensor_value_info("x", 1, shape), helper.make_tensor_value_info("y", 1, None)]
    node = helper.make_node("Concat", ["x"] * 50_000, ["y"], axis=axis)
    model = helper.make_model(helper.make_graph([node], "net", ends[:1], ends[1:]))
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    start = time.process_time()
    found = api.load(tmp_path / "net.onnx").outputs[0].shape
    assert time.process_time() - start < 5
    assert found is not None
    assert str(found[1 - axis]) == shape[1 - axis]
    assert str(found[axis]) not in shape
