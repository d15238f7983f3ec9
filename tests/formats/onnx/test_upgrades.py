"""Operators of old opsets: what they compute after reading, against ONNX Runtime on the old file.

ONNX Runtime runs opset 7 and later; older forms are checked against formulas.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from netweave.errors import UnsupportedError
from netweave.files.onnx import upgrades
from tests.formats.onnx.models import load, model, node, normal, run

X = (2, 4, 5, 6)

CASES = {
    "clip": (6, [node("Clip", "x", "y", min=-0.5, max=0.3)], {}),
    "clip, one side": (10, [node("Clip", "x", "y", min=0.0)], {}),
    "softmax over the last three axes": (11, [node("Softmax", "x", "y")], {}),
    "softmax over the last two axes": (8, [node("Softmax", "x", "y", axis=2)], {}),
    "softmax over the last axis": (11, [node("Softmax", "x", "y", axis=-1)], {}),
    "log softmax": (12, [node("LogSoftmax", "x", "y", axis=1)], {}),
    "hardmax": (11, [node("Hardmax", "x", "y", axis=1)], {}),
    "batch normalization": (
        7,
        [node("BatchNormalization", "x s b m v", "y", spatial=1)],
        {"s": normal(4), "b": normal(4, seed=1), "m": normal(4, seed=2), "v": np.float32([1, 2, 3, 4])},
    ),
    "dropout": (7, [node("Dropout", "x", "y", ratio=0.3)], {}),
    "pad": (10, [node("Pad", "x", "y", pads=[0, 0, 1, 2, 0, 1, 0, 3], value=0.5)], {}),
    "pad, edge": (2 + 5, [node("Pad", "x", "y", pads=[0, 0, 1, 2, 0, 0, 0, 3], mode="edge")], {}),
    "slice": (9, [node("Slice", "x", "y", axes=[1, 3], starts=[1, -4], ends=[3, 100])], {}),
    "top-k": (9, [node("TopK", "x", "y i", k=3, axis=1)], {}),
    "squeeze": (11, [node("Slice", "x a c d", "s"), node("Squeeze", "s", "y", axes=[1])], "first"),
    "unsqueeze": (12, [node("Unsqueeze", "x", "y", axes=[0, -1])], {}),
    "reduce sum": (11, [node("ReduceSum", "x", "y", axes=[1, -1], keepdims=0)], {}),
    "reduce mean": (13, [node("ReduceMean", "x", "y", axes=[2, 3])], {}),
    "reduce over all": (17, [node("ReduceL2", "x", "y", keepdims=1)], {}),
    "split": (12, [node("Split", "x", "y z", axis=3, split=[1, 5])], {}),
    "split evenly": (12, [node("Split", "x", "y z", axis=1)], {}),
    "split by an input": (17, [node("Split", "x n", "y z", axis=1)], {"n": np.int64([1, 3])}),
    "upsample": (7, [node("Upsample", "x", "y", scales=[1.0, 1.0, 2.0, 3.0])], {}),
    "upsample, linear": (
        9,
        [node("Upsample", "x n", "y", mode="linear")],
        {"n": np.float32([1, 1, 1.5, 2])},
    ),
    "upsample by a fraction": (9, [node("Upsample", "x n", "y")], {"n": np.float32([1, 1, 1.6, 1.7])}),
    "resize": (10, [node("Resize", "x n", "y")], {"n": np.float32([1, 1, 1.6, 2])}),
    "resize, smaller": (10, [node("Resize", "x n", "y")], {"n": np.float32([1, 1, 0.6, 0.5])}),
    "resize, linear": (10, [node("Resize", "x n", "y", mode="linear")], {"n": np.float32([1, 1, 1.5, 0.7])}),
    "scatter": (
        10,
        [node("Scatter", "x n u", "y", axis=3)],
        {"n": np.zeros((2, 4, 5, 1), np.int64), "u": normal(2, 4, 5, 1)},
    ),
    "grid sample": (16, [node("GridSample", "x n", "y", mode="bicubic")], {"n": np.tanh(normal(2, 3, 3, 2))}),
    "group normalization": (
        18,
        [node("GroupNormalization", "x s b", "y", num_groups=2)],
        {"s": normal(2), "b": normal(2, seed=1)},
    ),
    "pooling": (8, [node("AveragePool", "x", "y", kernel_shape=[3, 2], pads=[1, 0, 1, 1])], {}),
    "lstm": (
        8,
        [node("Squeeze", "x", "q", axes=[0]), node("LSTM", "q w r", "y", hidden_size=3)],
        {"w": normal(1, 12, 6), "r": normal(1, 12, 3)},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_old_forms_compute_the_same(case, tmp_path):
    opset, nodes, arrays = CASES[case]
    if arrays == "first":
        arrays = {"a": np.int64([0]), "c": np.int64([1]), "d": np.int64([1])}
    shape = (1, *X[1:]) if case == "lstm" else X
    x = normal(*shape, seed=7)
    old = model(nodes, {"x": shape}, nodes[-1].output[:1], arrays, opset=opset)
    graph = load(old, tmp_path)
    assert graph.model.opset_imports[""] == 22
    (expected,) = run(old, {"x": x})
    (found,) = run(ir.to_proto(graph.model), {"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_roi_align_samples_as_before(tmp_path):
    """ONNX Runtime has no kernel for RoiAlign-22, so the reference evaluator runs what was read."""
    x = normal(*X)
    old = model(
        [node("RoiAlign", "x r n", "y", output_height=2, output_width=2, sampling_ratio=2)],
        {"x": X},
        ["y"],
        {"r": np.float32([[0, 0, 3, 3], [1, 1, 4, 4]]), "n": np.int64([0, 1])},
        opset=10,
    )
    (expected,) = run(old, {"x": x})
    (found,) = ReferenceEvaluator(ir.to_proto(load(old, tmp_path).model)).run(None, {"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_broadcasting_along_an_axis(tmp_path):
    """Before opset 7: ``b`` is laid along ``axis`` of ``a``."""
    a, b = normal(2, 3, 4, 5), normal(3, 4, seed=1)
    old = model(
        [node("Mul", "a b", "y", broadcast=1, axis=1, consumed_inputs=[0])],
        {"a": a.shape},
        ["y"],
        {"b": b},
        opset=1,
    )
    (found,) = run(ir.to_proto(load(old, tmp_path).model), {"a": a})
    np.testing.assert_allclose(found, a * b[:, :, None], rtol=1e-6)


def test_a_slope_for_each_channel(tmp_path):
    """PRelu before opset 7: a slope of one axis belongs to the channels."""
    x, slope = normal(2, 6, 5, 6), normal(6, seed=1)
    old = model([node("PRelu", "x s", "y")], {"x": x.shape}, ["y"], {"s": slope}, opset=6)
    (found,) = run(ir.to_proto(load(old, tmp_path).model), {"x": x})
    np.testing.assert_allclose(found, np.where(x < 0, x * slope[:, None, None], x), rtol=1e-6)


def test_attributes_of_opset_1(tmp_path):
    x = normal(2, 3, 4, 5)
    old = model(
        [
            node("Pad", "x", "p", paddings=[0, 0, 1, 0, 0, 0, 1, 0]),
            node("Concat", "p p", "c"),
            node("Reshape", "c", "r", shape=[0, -1], consumed_inputs=[0, 0]),
            node("Cast", "r", "y", to="DOUBLE"),
        ],
        {"x": x.shape},
        ["y"],
        opset=1,
        ir_version=3,
    )
    (found,) = run(ir.to_proto(load(old, tmp_path).model), {"x": x})
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (0, 0)])
    np.testing.assert_array_equal(found, np.concatenate([padded, padded], axis=1).reshape(2, -1))
    assert found.dtype == np.float64


@pytest.mark.parametrize(
    ("old", "message"),
    [
        (
            model(
                [node("Scan", "- x", "y", num_scan_inputs=1, body=model([], {}, []).graph)], {"x": X}, ["y"]
            ),
            r"Scan-8, the form of opset 8 \(1 node\)",
        ),
        (
            model(
                [node("BatchNormalization", "x s s s s", "y", spatial=0)], {"x": X}, ["y"], {"s": normal(4)}
            ),
            r"BatchNormalization-7, statistics for each pixel \(spatial=0\) \(1 node\)",
        ),
    ],
)
def test_what_has_no_form_today_is_named(old, message, tmp_path):
    old.opset_import[0].version = 8
    with pytest.raises(UnsupportedError, match=message):
        load(old, tmp_path)


def test_later_operators_are_named(tmp_path):
    nodes = [node("BitCast", x, y, to=onnx.TensorProto.INT32) for x, y in (("x", "a"), ("x", "y"))]
    later = model(nodes, {"x": X}, ["y"], opset=26)
    with pytest.raises(
        UnsupportedError, match=r"no form in opset 22 for 1 operator: BitCast-26, .*\(2 nodes\)"
    ):
        load(later, tmp_path)


def test_every_change_of_form_has_a_rule():
    """All versions of all schemas: an operator whose form changed up to opset 22 has a rule for it."""
    schemas = defaultdict(dict)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.since_version <= 22:
            schemas[schema.name][schema.since_version] = schema
    missing = {
        (name, new)
        for name, versions in schemas.items()
        for old, new in zip(sorted(versions), sorted(versions)[1:], strict=False)
        if _changed(versions[old], versions[new])
        and new not in [opset for opset, _ in upgrades._RULES.get(name, [])]
    }
    assert missing == set(HARMLESS)


HARMLESS = {
    ("Constant", 11): "other ways to give a value",
    ("Gemm", 11): "C may be left out",
    ("MaxPool", 8): "a second output",
    ("OptionalHasElement", 18): "the input may be left out",
}


def _changed(old, new) -> bool:
    """Whether a node of the old form may be another or no node of the new one."""
    inputs = [row.option for row in old.inputs], [row.option for row in new.inputs]
    if inputs[0] != inputs[1][: len(inputs[0])] or len(old.outputs) != len(new.outputs) or new.deprecated:
        return True
    return any(
        name not in new.attributes
        or new.attributes[name].type != row.type
        or str(new.attributes[name].default_value) != str(row.default_value)
        or new.attributes[name].required != row.required
        for name, row in old.attributes.items()
    )


@pytest.mark.parametrize(
    ("opset", "later", "inputs", "arrays"),
    [
        (23, node("Attention", "x x x", "y", is_causal=1), {"x": ("N", 4, 5, 6)}, {}),
        (24, node("Attention", "x x x m", "y"), {"x": ("N", 4, 5, 6)}, {"m": normal(5, 5)}),
        (
            23,
            node("Attention", "q k k", "y", q_num_heads=6, kv_num_heads=3, softcap=2.0, scale=0.3),
            {"q": (2, 5, 12), "k": (2, 5, 6)},
            {},
        ),
        (23, node("RMSNormalization", "x s", "y"), {"x": (2, 5, 6)}, {"s": normal(6)}),
        (23, node("RotaryEmbedding", "x c c", "y"), {"x": (2, 4, 5, 6)}, {"c": normal(2, 5, 3)}),
        (24, node("Swish", "x", "y"), {"x": (2, 5)}, {}),
    ],
    ids=["attention", "attention with a mask", "grouped heads", "rms", "rotary", "swish"],
)
def test_an_operator_that_came_later_is_read_as_the_function_that_onnx_defines(
    opset, later, inputs, arrays, tmp_path
):
    written = model([later], inputs, ["y"], arrays, opset=opset)
    values = {
        name: normal(*(2 if size == "N" else size for size in sizes), seed=seed)
        for seed, (name, sizes) in enumerate(inputs.items())
    }
    (expected,) = ReferenceEvaluator(written).run(None, values)
    (computed,) = run(ir.to_proto(load(written, tmp_path).model), values)
    np.testing.assert_allclose(computed, expected, rtol=0, atol=2e-6)
