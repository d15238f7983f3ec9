"""Faults of transformers that are explained: the token that is classified, the form of GELU."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

import netweave
from tests.comparison.nets import culprit
from tests.comparison.test_explain import saved


def pooled(path, element):
    """A net that classifies one of its tokens, channels last."""
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["tokens"], name="dense"),
        helper.make_node("Tanh", ["tokens"], ["bent"], name="tanh"),
        helper.make_node("Gather", ["bent", "element"], ["taken"], name="take", axis=1),
        helper.make_node("MatMul", ["taken", "second"], ["y"], name="head"),
    ]
    random = np.random.default_rng(0)
    arrays = {name: random.standard_normal((6, 6), np.float32) for name in ("first", "second")}
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 5, 6])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 6])
    stored = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    stored.append(numpy_helper.from_array(np.array(element), "element"))
    save(helper.make_model(helper.make_graph(nodes, "net", [given], [made], stored)), path)
    return path


def test_another_token_that_is_taken_is_told(tmp_path):
    first, last, same = (pooled(tmp_path / f"{n}.onnx", element) for n, element in enumerate((0, -1, 4)))
    finding = culprit(netweave.compare(first, last))
    assert (finding.mismatch, finding.layer_b) == ("element", "take")
    assert finding.cause == ("along axis 1 the element at 0 is taken in A, the one at 4 (the last) in B")
    assert finding.fix == "take the element at 0"
    assert not netweave.compare(last, same).findings


def gelu(path, nodes):
    """A net of the GELU of a convolution, in these nodes, of which the last makes ``bent``."""
    first = helper.make_node("Conv", ["x", "w"], ["made"], name="conv")
    last = helper.make_node("Conv", ["bent", "v"], ["y"], name="last")
    random = np.random.default_rng(0)
    arrays = {name: random.standard_normal((3, 3, 1, 1), np.float32) for name in ("w", "v")}
    read = {name for node in nodes for name in node.input}
    numbers = {"root": -(0.5**0.5), "one": 1, "half": 0.5}
    arrays |= {name: np.float32(number) for name, number in numbers.items() if name in read}
    return saved(path, [first, *nodes, last], arrays)


def test_the_form_of_gelu_is_told_where_it_is_one_node_and_several(tmp_path):
    right = gelu(
        tmp_path / "a.onnx", [helper.make_node("Gelu", ["made"], ["bent"], name="gelu", approximate="tanh")]
    )
    steps = [
        ("Mul", ["made", "root"], "1"),
        ("Erf", ["1"], "2"),
        ("Sub", ["one", "2"], "3"),
        ("Mul", ["made", "3"], "4"),
        ("Mul", ["half", "4"], "bent"),
    ]
    wrong = gelu(tmp_path / "b.onnx", [helper.make_node(op, given, [made]) for op, given, made in steps])
    finding = culprit(netweave.compare(right, wrong))
    assert finding.cause == "A computes GELU (tanh), B computes GELU"
