"""Boxes' formulas: against counted cells, and the same in every array library that they are used with."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from netweave.formats.onnx.functions import tape
from netweave.graph import OPSET
from netweave.graph.ops.box_geometry import (
    box_areas,
    centres_of_corners,
    corners_of_centres,
    decode_boxes,
    decode_pixel_boxes,
    decode_region_boxes,
    intersection_over_union,
)
from netweave.graph.ops.detection import overlaps

RNG = np.random.default_rng(11)


def cells(box, edge):
    """The unit cells that a box with whole corners covers."""
    x0, y0, x1, y1 = map(int, box)
    return {(x, y) for x in range(x0, x1 + edge) for y in range(y0, y1 + edge)}


@pytest.mark.parametrize("edge", [0, 1])
def test_the_overlap_is_the_share_of_common_cells(edge):
    low = RNG.integers(0, 6, (40, 2))
    boxes = np.concatenate([low, low + RNG.integers(0, 5, (40, 2))], axis=1).astype(np.float32)
    found = intersection_over_union(boxes[:, None], boxes, np, edge)
    for i, first in enumerate(boxes):
        for j, second in enumerate(boxes):
            a, b = cells(first, edge), cells(second, edge)
            assert found[i, j] == pytest.approx(len(a & b) / len(a | b) if a & b else 0)


def test_a_box_inside_out_has_no_area_and_overlaps_nothing():
    boxes = np.array([[0.8, 0.8, 0.2, 0.2], [0, 0, 1, 1]], np.float32)
    np.testing.assert_array_equal(box_areas(boxes, np), [0, 1])
    np.testing.assert_array_equal(intersection_over_union(boxes[:1], boxes, np), [0, 0])


def test_boxes_whose_area_no_number_holds_overlap_nothing():
    boxes = np.array([[-1e200, -1e200, 1e200, 1e200], [0, 0, 1, 1]])
    np.testing.assert_array_equal(overlaps(boxes, boxes[1]), [0, 1])


def odd_boxes():
    """Boxes of which some are of NaN, infinite, inside out, or without area."""
    low = RNG.random((30, 2))
    boxes = np.concatenate([low, low + RNG.random((30, 2))], axis=1).astype(np.float32)
    boxes[3], boxes[7, 2:], boxes[9] = np.nan, np.inf, boxes[9, [2, 3, 0, 1]]
    boxes[12, 2:] = boxes[12, :2]
    return boxes


@pytest.mark.parametrize("edge", [0.0, 1.0])
def test_torch_computes_the_same_bits(edge):
    torch = pytest.importorskip("torch")
    boxes = odd_boxes()
    with np.errstate(invalid="ignore"):
        expected = intersection_over_union(boxes[:, None], boxes, np, edge)
    found = intersection_over_union(
        torch.from_numpy(boxes)[:, None], torch.from_numpy(boxes), torch, edge
    ).numpy()
    np.testing.assert_array_equal(found, expected)


def by_onnxruntime(formula, *arrays):
    """What ONNX Runtime makes of the nodes that a formula leaves on the tape."""
    values = [
        ir.Value(name=f"x{i}", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(array.shape))
        for i, array in enumerate(arrays)
    ]
    with tape.recording() as nodes:
        result = formula(*map(tape.Tensor, values), tape).value
    result.type = ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph(values, [result], nodes=nodes, opset_imports={"": OPSET}, name="formula")
    model = ir.to_proto(ir.Model(graph, ir_version=10)).SerializeToString()
    session = onnxruntime.InferenceSession(model)
    return session.run(None, {f"x{i}": array for i, array in enumerate(arrays)})[0]


@pytest.mark.parametrize(
    "formula",
    [
        intersection_over_union,
        lambda boxes, others, xp: intersection_over_union(boxes, others, xp, 1.0),
        decode_boxes,
        decode_pixel_boxes,
        decode_region_boxes,
        lambda boxes, _, xp: centres_of_corners(boxes, xp),
        lambda boxes, _, xp: corners_of_centres(boxes, xp),
    ],
)
def test_the_nodes_of_an_onnx_function_compute_the_same(formula):
    low = RNG.random((2, 30, 2))
    boxes, others = np.concatenate([low, low + RNG.random((2, 30, 2))], axis=-1).astype(np.float32)
    np.testing.assert_allclose(
        by_onnxruntime(formula, boxes, others), formula(boxes, others, np), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize(
    ("decode", "expected"),
    [
        (decode_boxes, [2, 3, 7, 11]),
        (decode_pixel_boxes, [2, 3, 7, 11]),
        (decode_region_boxes, [2, 3, 8, 12]),  # py-faster-rcnn: from centre - width / 2 to centre + width / 2
    ],
)
def test_deltas_of_zero_give_the_anchor_back(decode, expected):
    anchors = np.array([[2.0, 3, 7, 11]], np.float32)
    np.testing.assert_allclose(decode(anchors, np.zeros((1, 4), np.float32), np), [expected])


def test_a_loop_records_outside_what_does_not_change():
    """The areas of all boxes are computed once, and not once for each box that stays."""
    value = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([1, 9, 4]))
    with tape.recording() as nodes:
        boxes = tape.Tensor(value)

        def step(number, state):
            return None, [state + box_areas(boxes, tape)], []

        (total,) = tape.loop(3, None, [box_areas(boxes, tape) * 0.0], step)
    (node,) = [node for node in nodes if node.op_type == "Loop"]
    assert [each.op_type for each in node.attributes["body"].value] == ["Add", "Identity", "Identity"]
    total.value.type = ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph([value], [total.value], nodes=nodes, opset_imports={"": OPSET}, name="loop")
    session = onnxruntime.InferenceSession(ir.to_proto(ir.Model(graph, ir_version=10)).SerializeToString())
    array = RNG.random((1, 9, 4)).astype(np.float32)
    (found,) = session.run(None, {"x": array})
    np.testing.assert_allclose(found, 3 * box_areas(array, np), rtol=1e-6)
