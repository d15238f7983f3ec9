"""Netweave's operators as functions: ONNX Runtime makes of a body what the registry's forward gives."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

from netweave.files import Source
from netweave.formats.onnx.functions import why_without
from netweave.formats.onnx.reader import read
from netweave.formats.onnx.writer import write
from netweave.graph import GraphBuilder, all_operators, find_operator

RNG = np.random.default_rng(7)


def floats(*shape, scale=1.0):
    return (RNG.normal(size=shape) * scale).astype(np.float32)


def corners(*shape):
    """Boxes within the unit square, some of which overlap."""
    centre, half = RNG.random((*shape, 2)), RNG.random((*shape, 2)) * 0.2 + 0.02
    return np.concatenate([centre - half, centre + half], axis=-1).astype(np.float32)


def probabilities(*shape, axis):
    """Rounded, so that some are equal."""
    drawn = RNG.random(shape)
    return (drawn / drawn.sum(axis=axis, keepdims=True)).round(2).astype(np.float32)


def net(op_type, arrays, attributes):
    builder = GraphBuilder("net", format="test")
    inputs = [builder.input(f"x{i}", a.shape, batch=False) for i, a in enumerate(arrays)]
    count = len(find_operator(op_type).forward(arrays, attributes))
    outputs = [f"y{i}" for i in range(count)]
    return builder.finish(builder.add_many(op_type, inputs, attributes, domain="netweave", outputs=outputs))


def run(path, arrays):
    session = onnxruntime.InferenceSession(str(path))
    return session.run(None, {f"x{i}": a for i, a in enumerate(arrays) if i < len(session.get_inputs())})


def multibox(**attributes):
    arrays = [probabilities(2, 4, 120, axis=1), floats(2, 480, scale=0.5), corners(1, 120)]
    return pytest.param("MultiBoxDetection", arrays, attributes, id=f"MultiBoxDetection {attributes}")


def detection(own, **attributes):
    arrays = [corners(2, 80, own), probabilities(2, 80, 4, axis=2)]
    return pytest.param("DetectionOutput", arrays, attributes, id=f"DetectionOutput {own} {attributes}")


def nms(**attributes):
    columns = (RNG.integers(0, 4, (2, 3, 60, 1)), RNG.random((2, 3, 60, 1)).round(1), corners(2, 3, 60))
    table = np.concatenate(columns, axis=-1).astype(np.float32)
    return pytest.param("BoxNMS", [table], attributes, id=f"BoxNMS {attributes}")


def proposal(**attributes):
    sizes = np.array([[100, 140, 1.0], [112, 130, 1.5]], np.float32)
    arrays = [RNG.random((2, 24, 7, 9)).round(2).astype(np.float32), floats(2, 48, 7, 9, scale=0.3), sizes]
    return pytest.param("Proposal", arrays, attributes, id=f"Proposal {attributes}")


def regions(count):
    rows = np.concatenate([RNG.integers(0, 2, (count, 1)), RNG.random((count, 4)) * 120 - 10], axis=1)
    attributes = {"pooled_shape": [3, 4], "spatial_scale": 1 / 16}
    return pytest.param(
        "ROIPooling", [floats(2, 5, 8, 9), rows.astype(np.float32)], attributes, id=f"ROIPooling {count}"
    )


def region_proposal(**attributes):
    sizes = np.array([[100, 140, 1.0]], np.float32)
    arrays = [RNG.random((1, 18, 7, 9)).round(2).astype(np.float32), floats(1, 36, 7, 9, scale=0.3), sizes]
    return pytest.param("RegionProposal", arrays, attributes, id=f"RegionProposal {attributes}")


def position_sensitive(count):
    rows = np.concatenate([RNG.integers(0, 2, (count, 1)), RNG.random((count, 4)) * 120 - 10], axis=1)
    attributes = {"output_dim": 4, "group_size": 3, "spatial_scale": 1 / 16}
    arrays = [floats(2, 36, 8, 9), rows.astype(np.float32)]
    return pytest.param("PSROIPooling", arrays, attributes, id=f"PSROIPooling {count}")


def pools():
    shapes = [((1, 2), (3, 3), None, "full"), ((2, 2), (3, 2), (1, 0, 0, 1), "full")]
    shapes += [((2, 1), (4, 3), None, "caffe"), ((3, 3), (3, 2), (1, 1, 1, 1), "full")]
    for op_type in ("MaxPool", "AveragePool"):
        for kernel, strides, pads, rounding in shapes:
            for size in ((8, 9), (7, 7), (5, 6)):
                attributes = {"kernel_shape": list(kernel), "strides": list(strides), "rounding": rounding}
                attributes |= {"pads": list(pads)} if pads else {}
                if op_type == "AveragePool":
                    attributes["count_include_pad"] = size[0] % 2
                yield pytest.param(
                    op_type, [floats(2, 3, *size)], attributes, id=f"{op_type} {size} {attributes}"
                )


def loops():
    for states in (0, 1):
        cont = np.array([[0, 0], [1, 1], [0, 1], [1, 0]], np.float32)
        for op_type, gates, count in (("CaffeLSTM", 4, 2), ("CaffeRNN", 1, 1)):
            arrays = [floats(4, 2, 3 * gates), cont, floats(3 * gates, 3)]
            arrays += [floats(1, 2, 3) for _ in range(states * count)]
            yield pytest.param(op_type, arrays, {}, id=f"{op_type} {states}")


def outputs():
    x, label = floats(2, 3, 4), np.zeros(2, np.float32)
    for attributes in ({}, {"multi_output": 1}, {"preserve_shape": 1}):
        yield pytest.param("SoftmaxOutput", [x, label], attributes, id=f"SoftmaxOutput {attributes}")
    for name in ("LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput"):
        yield pytest.param(name, [x, x], {}, id=name)
    yield pytest.param("SVMOutput", [x[0], label[:1]], {}, id="SVMOutput")
    yield pytest.param("MakeLoss", [x], {}, id="MakeLoss")


CASES = [
    multibox(),
    multibox(nms_topk=30),
    multibox(force_suppress=1, nms_threshold=0.3),
    multibox(clip=0, threshold=0.4),
    multibox(nms_threshold=-1.0),
    multibox(threshold=2.0),
    *(
        detection(own, nms_threshold=0.45, top_k=50, keep_top_k=20, confidence_threshold=0.3)
        for own in (1, 4)
    ),
    *(detection(own, background_label_id=-1, keep_top_k=5, nms_threshold=0.1) for own in (1, 4)),
    detection(1),
    detection(1, confidence_threshold=2.0),
    detection(1, eta=0.9, nms_threshold=0.45),
    nms(),
    nms(id_index=0, topk=20, valid_thresh=0.2),
    nms(id_index=0, force_suppress=1, overlap_thresh=0.1),
    nms(id_index=0, background_id=1, in_format="center"),
    nms(in_format="center", out_format="corner"),
    nms(out_format="center", overlap_thresh=0.1),
    nms(valid_thresh=3.0),
    proposal(rpn_post_nms_top_n=30),
    proposal(rpn_pre_nms_top_n=100, rpn_post_nms_top_n=50, threshold=0.5, rpn_min_size=0),
    proposal(iou_loss=1, rpn_post_nms_top_n=20),
    regions(12),
    regions(0),
    region_proposal(),
    region_proposal(pre_nms_top_n=50, post_nms_top_n=20, nms_threshold=0.5, min_size=40.0),
    region_proposal(pre_nms_top_n=0, post_nms_top_n=0, feature_stride=8),
    region_proposal(min_size=1e6),
    position_sensitive(12),
    position_sensitive(0),
    *pools(),
    pytest.param(
        "ChannelLRN", [floats(2, 5, 8, 9)], {"size": 5, "alpha": 0.1, "beta": 0.75}, id="ChannelLRN"
    ),
    *(
        pytest.param(
            "RotaryEmbedding",
            [floats(2, 3, 5, 8), floats(5, width), floats(5, width)],
            {"interleaved": interleaved, "rotary_dim": rotary_dim},
            id=f"RotaryEmbedding-{interleaved}-{rotary_dim}",
        )
        for interleaved in (0, 1)
        for width, rotary_dim in ((4, 0), (2, 4))
    ),
    pytest.param(
        "RMSNormalization", [floats(2, 3, 5), floats(5)], {"axis": -1, "epsilon": 0.01}, id="RMSNormalization"
    ),
    pytest.param(
        "Attention", [floats(1, 2, 3, 4)] * 3, {"scale": 0.5, "softcap": 0.7}, id="Attention with a soft cap"
    ),
    *loops(),
    *outputs(),
]


@pytest.mark.parametrize(("op_type", "arrays", "attributes"), CASES)
def test_the_runtime_gives_what_the_forward_gives(op_type, arrays, attributes, tmp_path):
    write(net(op_type, arrays, attributes), tmp_path / "net.onnx")
    onnx.checker.check_model(str(tmp_path / "net.onnx"))
    wanted = find_operator(op_type).forward(arrays, attributes)
    for found, want in zip(run(tmp_path / "net.onnx", arrays), wanted, strict=True):
        assert found.shape == want.shape
        digits = 3e-7 * max(1.0, abs(want).max(initial=0))  # of pixels that were subtracted
        np.testing.assert_allclose(found, want, rtol=2e-6, atol=max(2e-6, digits))


def detected(rows, **attributes):
    """What MultiBoxDetection makes of anchors with a score for the one class each, as the runtime has it."""
    boxes = np.array([row[1:] for row in rows], np.float32)[None]
    scores = np.array([[[1 - row[0] for row in rows], [row[0] for row in rows]]], np.float32)
    return [scores, np.zeros((1, 4 * len(rows)), np.float32), boxes], {"nms_threshold": 0.5, **attributes}


@pytest.mark.parametrize(
    ("rows", "labels", "order"),
    [
        # of boxes with the same score the first stays
        ([(0.5, 0, 0, 1, 1), (0.5, 0, 0, 1, 1), (0.5, 0, 0, 1, 1)], [0, -1, -1], [0, 1, 2]),
        # half of the union is shared: MXNet takes the box from the threshold on
        ([(0.5, 0, 0, 1, 1), (0.6, 0, 0, 1, 0.5)], [0, -1], [1, 0]),
        # what is suppressed suppresses nothing
        ([(0.9, 0, 0, 0.5, 1), (0.8, 0.125, 0, 0.625, 1), (0.7, 0.25, 0, 0.75, 1)], [0, -1, 0], [0, 1, 2]),
        # a box without an area overlaps nothing
        ([(0.9, 0.5, 0.5, 0.5, 0.5), (0.8, 0.5, 0.5, 0.5, 0.5)], [0, 0], [0, 1]),
    ],
)
def test_boxes_at_the_threshold(rows, labels, order, tmp_path):
    arrays, attributes = detected(rows)
    write(net("MultiBoxDetection", arrays, attributes), tmp_path / "net.onnx")
    (found,) = run(tmp_path / "net.onnx", arrays)
    assert found[0, :, 0].tolist() == labels
    np.testing.assert_array_equal(found[0, :, 2:], arrays[2][0][order])


def test_a_box_with_swapped_corners_stays(tmp_path):
    boxes = np.array([[0, 0, 1, 1], [1, 1, 0, 0]], np.float32).reshape(1, 2, 1, 4)
    scores = np.array([[[0, 0.9], [0, 0.8]]], np.float32)
    write(net("DetectionOutput", [boxes, scores], {}), tmp_path / "net.onnx")
    (found,) = run(tmp_path / "net.onnx", [boxes, scores])
    np.testing.assert_array_equal(found[0, 0, :, 3:], boxes[0, :, 0])


def test_our_reader_takes_the_operators_back(tmp_path):
    builder = GraphBuilder("net", format="test")
    x = builder.input("x0", [1, 3, 8, 8])
    for stride in (3, 4, 3):
        attributes = {"kernel_shape": [1, 1], "strides": [stride] * 2, "rounding": "full"}
        x = builder.add("MaxPool", [x], attributes, domain="netweave")
    write(builder.finish([x]), tmp_path / "net.onnx")
    functions = onnx.load(tmp_path / "net.onnx").functions
    assert [(f.domain, f.name, f.overload) for f in functions] == [
        ("netweave", "MaxPool", ""),
        ("netweave", "MaxPool", "1"),
    ]
    back = read(Source(tmp_path / "net.onnx"))
    assert [(n.domain, n.op_type, n.overload) for n in back.nodes] == [("netweave", "MaxPool", "")] * 3
    assert not back.model.functions
    assert [n.attributes["strides"].as_ints() for n in back.nodes] == [(3, 3), (4, 4), (3, 3)]


def test_what_has_no_form_is_written_without(tmp_path):
    arrays = [corners(1, 8, 1), probabilities(1, 8, 3, axis=2)]
    write(net("DetectionOutput", arrays, {"eta": 0.9, "nms_threshold": 0.6}), tmp_path / "net.onnx")
    assert not onnx.load(tmp_path / "net.onnx").functions
    assert [node.op_type for node in read(Source(tmp_path / "net.onnx")).nodes] == ["DetectionOutput"]


def test_every_operator_has_a_body_or_a_reason():
    missing = {name for name in all_operators() if why_without(name) == "no body is written for it"}
    assert missing <= {"MXNetCustom"}  # which calls operators of users' own, where netweave.mxnet is imported
