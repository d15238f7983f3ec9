"""Lowerings of the domain ``netweave`` against the registry: forwards, and gradients where it has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

pytest.importorskip("torch")

import torch

from netweave.graph import GraphBuilder, all_operators, find_operator
from netweave.graph.passes.partition import Boxes
from netweave.runtime.backends.torch import TorchNet

RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Case:
    """One call of an operator."""

    op_type: str
    inputs: tuple[np.ndarray, ...]
    attributes: dict[str, Any] = field(default_factory=dict)

    def __str__(self):
        settings = "-".join(f"{k}={v}" for k, v in self.attributes.items())
        return f"{self.op_type}({settings})".replace(" ", "")


def real(*shape):
    return RNG.standard_normal(shape)


def probabilities(*shape):
    e = np.exp(real(*shape))
    return e / e.sum(axis=1, keepdims=True)


def classes(*shape, num=4, ignored=None):
    labels = RNG.integers(0, num, shape).astype(np.float64)
    if ignored is not None:
        labels.flat[0] = ignored
    return labels


def poolings():
    for op_type in ("MaxPool", "AveragePool"):
        for rounding in ("floor", "ceil", "caffe", "full"):
            for kernel, stride, pads in [
                ((1, 1), (3, 3), (0, 0, 0, 0)),
                ((2, 3), (3, 2), (0, 1, 0, 1)),
                ((3, 3), (2, 2), (1, 1, 1, 1)),
                ((3, 3), (4, 2), (0, 2, 1, 0)),
                ((5, 5), (2, 3), (2, 0, 2, 0)),
            ]:
                attributes = {"kernel_shape": kernel, "strides": stride, "pads": pads, "rounding": rounding}
                yield Case(op_type, (real(2, 3, 8, 9),), attributes)
                if op_type == "AveragePool":
                    yield Case(op_type, (real(2, 3, 7, 6),), attributes | {"count_include_pad": 0})


def normalisations():
    for size in (1, 3, 7):
        yield Case("ChannelLRN", (real(2, 3, 5, 6),), {"size": size, "alpha": 0.9, "beta": 0.75})
    yield Case("ChannelLRN", (real(1, 2, 4, 3),), {"size": 3, "alpha": 2.0, "beta": 1.5})


def connections():
    """Yield connections of a net with one worker; those of several are in ``tests/training``."""
    alone = Boxes(((0, 3),), (((0, 2), (2, 4)),), (((0, 2),),)).to_text()
    for op_type in ("Bridge", "Broadcast", "Gather", "Halo", "Regroup", "Slice"):
        sizes = {"rank": 3, "worker": 0}
        yield Case(op_type, (real(3, 4, 2),), {"source": alone, "target": alone, "trained": 1, **sizes})


def softmax_losses():
    for op_type, extra in (("SoftmaxWithLoss", ()), ("InfogainLoss", (np.abs(real(4, 4)),))):
        for normalization in ("FULL", "VALID", "BATCH_SIZE", "NONE"):
            for ignored in (None, 2, -1):
                attributes = {"axis": 1, "normalization": normalization}
                if ignored is not None:
                    attributes["ignore_label"] = ignored
                labels = classes(2, 3, 2, ignored=ignored)
                yield Case(op_type, (real(2, 4, 3, 2), labels, *extra), attributes)
        yield Case(op_type, (real(3, 5, 4), classes(3, 5), *extra), {"axis": 2})
    yield Case("SoftmaxWithLoss", (200 * real(6, 4), classes(6)))
    yield Case("SoftmaxWithLoss", (200 * real(6, 4), classes(6)), {"min_probability": 1e-38})
    yield Case("InfogainLoss", (200 * real(6, 4), classes(6), np.eye(4)))


def softmax_outputs():
    for attributes in (
        {},
        {"grad_scale": 0.5, "smooth_alpha": 0.1},
        {"normalization": "batch"},
        {"normalization": "valid", "use_ignore": 1, "ignore_label": 2.0},
        {"use_ignore": 1, "ignore_label": 2.0},
        {"out_grad": 1},
    ):
        yield Case("SoftmaxOutput", (real(5, 4), classes(5)), attributes)
        yield Case("SoftmaxOutput", (real(2, 4, 3, 2), classes(2, 3, 2)), attributes | {"multi_output": 1})
        yield Case("SoftmaxOutput", (real(2, 3, 4), classes(2, 3)), attributes | {"preserve_shape": 1})
    yield Case("SoftmaxOutput", (real(5, 4), probabilities(5, 4)), {"grad_scale": 2.0})
    yield Case("SoftmaxOutput", (real(2, 3, 4), classes(2, 3)))


def caffe_losses():
    for ignored in (None, 1):
        attributes = {} if ignored is None else {"ignore_label": ignored}
        target = RNG.integers(0, 2, (3, 4)).astype(np.float64)
        yield Case("SigmoidCrossEntropyLoss", (3 * real(3, 4), target), attributes)
        yield Case("SigmoidCrossEntropyLoss", (real(3, 4), target), attributes | {"normalization": "NONE"})
    yield Case("EuclideanLoss", (real(3, 2, 2), real(3, 4)))
    yield Case("SmoothL1Loss", (2 * real(3, 4), real(3, 4)))
    yield Case("SmoothL1Loss", (real(3, 2, 2), real(3, 4), real(3, 4), real(3, 4)), {"sigma": 3.0})
    for norm in ("L1", "L2"):
        yield Case("HingeLoss", (real(5, 4), classes(5)), {"norm": norm})
    for legacy in (0, 1):
        alike = RNG.integers(0, 2, (6, 1)).astype(np.float64)
        attributes = {"margin": 3.0, "legacy_version": legacy}
        yield Case("ContrastiveLoss", (real(6, 3), real(6, 3), alike), attributes)
    yield from margins()
    yield Case("MultinomialLogisticLoss", (probabilities(5, 4), classes(5)))
    yield Case("MultinomialLogisticLoss", (np.eye(4), np.array([0.0, 1, 1, 3])))
    for top_k in (1, 2):
        x = np.round(real(20, 4))  # with ties
        yield Case("Accuracy", (x, classes(20)), {"top_k": top_k})
        for ties in ("lowest", "highest"):
            yield Case("Accuracy", (x.round(), classes(20)), {"top_k": top_k, "ties": ties})
        yield Case("Accuracy", (x, classes(20, ignored=-1)), {"top_k": top_k, "ignore_label": -1})


def margins():
    labels, centers = classes(7), real(4, 6)
    unit = centers / np.linalg.norm(centers, axis=1, keepdims=True)
    for margin in (1, 2, 3, 4):
        inputs = (real(7, 3, 2), unit, labels, np.array([0.3]))
        yield Case("MarginInnerProduct", inputs, {"margin": margin})
    cosines = RNG.uniform(-0.99, 0.99, (7, 4))
    for kind, margin in (("HARD", 28.6), ("SOFT", 1.35), ("HARD", 0.0)):
        yield Case("LabelSpecificMargin", (cosines, labels, np.array([margin])), {"kind": kind})
    for distance in ("L1", "L2"):
        yield Case("CenterLoss", (real(7, 3, 2), labels, centers), {"distance_type": distance})
    yield Case("UnitRows", (centers,), {"epsilon": 1e-6})
    yield Case("CallCount", (labels,), {"first": 3})


def mxnet_outputs():
    for op_type in ("LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput"):
        yield Case(op_type, (real(4, 3), real(4, 3)), {"grad_scale": 0.7})
        yield Case(op_type, (real(4, 1), real(4)))
    for use_linear in (0, 1):
        attributes = {"margin": 0.8, "regularization_coefficient": 0.6, "use_linear": use_linear}
        yield Case("SVMOutput", (real(5, 4), classes(5)), attributes)
    for normalization in ("null", "batch", "valid"):
        attributes = {"grad_scale": 3.0, "valid_thresh": 0.2, "normalization": normalization}
        yield Case("MakeLoss", (real(4, 3),), attributes)


def caffe_recurrences():
    cont = np.array([[0.0, 1], [1, 1], [1, 0], [1, 1]])
    states = (real(1, 2, 3), real(1, 2, 3))
    for given in ((), states):
        yield Case("CaffeLSTM", (real(4, 2, 12), cont, real(12, 3), *given))
        yield Case("CaffeRNN", (real(4, 2, 3), cont, real(3, 3), *given[:1]))


def corners(*shape):
    low = RNG.uniform(0, 1, (*shape, 2))
    return np.concatenate([low, low + RNG.uniform(0.1, 0.5, (*shape, 2))], axis=-1)


def choices():
    settings = {"background_label_id": 0, "confidence_threshold": 0.1, "nms_threshold": 0.3, "eta": 1.0}
    for top_k, keep_top_k in ((-1, -1), (9, 5)):
        limits = {"top_k": top_k, "keep_top_k": keep_top_k}
        for num_boxes in (1, 3):
            inputs = (corners(2, 20, num_boxes), RNG.dirichlet(np.ones(3), (2, 20)))
            yield Case("DetectionOutput", inputs, settings | limits)


def mxnet_choices():
    labels = np.concatenate([classes(2, 5, 1, num=3), corners(2, 5)], axis=-1)
    labels[:, -1] = -1
    inputs = (corners(1, 30), labels, real(2, 4, 30))
    for attributes in ({}, {"negative_mining_ratio": 1.5, "overlap_threshold": 0.3, "ignore_label": -2.0}):
        yield Case("MultiBoxTarget", inputs, attributes)
    inputs = (probabilities(2, 4, 30), real(2, 120), corners(1, 30))
    for attributes in ({}, {"nms_topk": 9, "force_suppress": 1, "clip": 0, "nms_threshold": 0.2}):
        yield Case("MultiBoxDetection", inputs, attributes)
    rows = np.concatenate([classes(2, 20, 1), np.abs(real(2, 20, 1)), corners(2, 20)], axis=-1)
    for attributes in ({}, {"id_index": 0, "topk": 7, "out_format": "center", "overlap_thresh": 0.2}):
        yield Case("BoxNMS", (rows,), attributes)


def regions():
    settings = {"feature_stride": 4, "scales": (2.0, 4.0), "ratios": (0.5, 1.0), "rpn_min_size": 3}
    info = np.array([[26.0, 30, 1.5], [28, 32, 1]])
    inputs = (np.abs(real(2, 8, 7, 8)), real(2, 16, 7, 8), info)
    yield Case("Proposal", inputs, settings | {"rpn_post_nms_top_n": 9, "threshold": 0.5})
    settings = {"feature_stride": 4, "scales": (0.5, 1.0), "min_size": 3.0, "post_nms_top_n": 9}
    inputs = (np.abs(real(1, 12, 5, 6)), 0.3 * real(1, 24, 5, 6), np.array([[26.0, 30, 1.5]]))
    yield Case("RegionProposal", inputs, settings)
    rois = np.concatenate([classes(6, 1, num=2), 16 * corners(6)], axis=-1)
    attributes = {"output_dim": 3, "group_size": 2, "spatial_scale": 0.4}
    yield Case("PSROIPooling", (real(2, 12, 8, 9), rois), attributes)
    for shape in ((2, 3), (4, 4)):
        attributes = {"pooled_shape": shape, "spatial_scale": 0.4}
        yield Case("ROIPooling", (real(2, 3, 8, 9), rois), attributes)
        yield Case("ROIPooling", (np.round(real(2, 3, 8, 9)), rois), attributes)  # with ties


def multibox_losses():
    truth = [[0, 1, 0, 0.1, 0.1, 0.5, 0.6, 0], [0, 3, 0, 0.4, 0.2, 0.9, 0.9, 1], [1, 2, 0, 0, 0, 0.7, 0.4, 0]]
    variances = np.tile([0.1, 0.2, 0.3, 0.4], (20, 1))
    priors = np.stack([corners(20), variances]).reshape(1, 2, -1)
    inputs = (real(3, 80), real(3, 80), priors, np.array(truth)[None, None])
    for attributes in (
        {},
        {"loc_loss": "L2", "loc_weight": 0.5, "code_type": "CENTER_SIZE", "normalization": "BATCH_SIZE"},
        {"conf_loss": "LOGISTIC", "normalization": "FULL", "overlap_threshold": 0.2, "neg_overlap": 0.2},
        {"mining_type": "NONE", "encode_variance_in_target": 1, "use_difficult_gt": 0},
        {"match_type": "BIPARTITE", "code_type": "CORNER_SIZE", "conf_weight": 0.5, "neg_pos_ratio": 1.5},
        {"ignore_cross_boundary_bbox": 1, "normalization": "NONE"},
    ):
        yield Case("MultiBoxLoss", inputs, attributes)


def yolo_losses():
    truth = np.zeros((2, 3, 6))
    truth[0, :2] = [[0.3, 0.4, 0.2, 0.3, 1, 0], [0.7, 0.6, 0.5, 0.4, 0, 0]]
    anchors = {"anchors": [20.0, 30.0, 50.0, 40.0], "classes": 2}
    yolo = {**anchors, "mask": [0, 1], "width": 96, "height": 96, "ignore_thresh": 0.2}
    yield Case("YoloLoss", (real(2, 14, 3, 4), truth), yolo)
    cells = {"anchors": [0.7, 1.0, 1.6, 1.3], "classes": 2, "thresh": 0.2}
    # a net that nobody trains is at its first update: one pass of the images has been seen
    for attributes in ({"softmax": 1, "seen": 13000}, {"bias_match": 1, "rescore": 1, "noobject_scale": 0.5}):
        yield Case("RegionLoss", (real(2, 14, 3, 4), truth), cells | attributes)


CASES = [
    *poolings(),
    *normalisations(),
    *connections(),
    *softmax_losses(),
    *softmax_outputs(),
    *caffe_losses(),
    *mxnet_outputs(),
    *caffe_recurrences(),
    *choices(),
    *multibox_losses(),
    *yolo_losses(),
    *mxnet_choices(),
    *regions(),
]
SPELT = np.array([[1.0, 2, 2], [3, 0, 0]])
CASES += [
    Case("CTCLoss", (real(6, 2, 5), SPELT)),
    Case(
        "CTCLoss",
        (real(6, 2, 5), SPELT, np.array([6.0, 4])),
        {"use_data_lengths": 1},
    ),
    Case("CTCLoss", (real(6, 2, 5), np.array([[0.0, 2, 2], [3, -1, -1]])), {"blank_label": "last"}),
    Case("CTCOutput", (real(12, 5), np.array([1.0, 2, 2, 3, 0, 0])), {"input_length": 6, "label_length": 3}),
    *(
        Case(
            "RotaryEmbedding", (real(2, 3, 5, 8), real(5, w), real(5, w)), {"interleaved": i, "rotary_dim": r}
        )
        for i in (0, 1)
        for w, r in ((4, 0), (2, 4))
    ),
    Case("RMSNormalization", (real(2, 3, 5), real(5)), {"axis": -1, "epsilon": 0.01}),
    Case("RMSNormalization", (real(2, 3, 5), real(3, 5)), {"axis": -2, "epsilon": 0.01}),
    Case("Attention", (*(real(1, 2, 3, 2) for _ in range(3)), real(3, 3)), {"scale": 0.5, "softcap": 0.75}),
    Case("Attention", tuple(real(2, 3, 4) for _ in range(3)), {"num_heads": 2, "scale": 1.0, "softcap": 2.0}),
    Case(
        "Attention", tuple(real(1, 2, 3, 2) for _ in range(3)), {"scale": 0.5, "is_causal": 1, "softcap": 1.0}
    ),
    Case("Attention", (real(2, 3, 4), real(2, 3, 4), real(2, 3, 4)), {"num_heads": 2, "scale": 0.5}),
    Case("Attention", tuple(real(1, 2, 3, 2) for _ in range(3)), {"scale": 0.5, "is_causal": 1}),
    Case("Attention", (*(real(1, 2, 3, 2) for _ in range(3)), real(1, 1, 3, 3)), {"scale": 1.0}),
    Case(
        "MultiHeadAttention",
        (*(real(1, 3, 4) for _ in range(3)), *(a for _ in range(4) for a in (real(4, 4), real(4)))),
        {"num_heads": 2, "scale": 0.5},
    ),
]
METRICS = {"Accuracy", "CallCount"}
"""They send no gradient back."""


def net_of(case):
    builder = GraphBuilder("one", format="onnx")
    inputs = [
        builder.input(f"x{i}", array.shape, dtype=ir.DataType.DOUBLE, batch=False)
        for i, array in enumerate(case.inputs)
    ]
    num_outputs = len(find_operator(case.op_type).forward(case.inputs, case.attributes))
    names = [f"y{i}" for i in range(num_outputs)]
    made = builder.add_many(case.op_type, inputs, case.attributes, domain="netweave", outputs=names)
    return TorchNet(builder.finish(made))


OF_USERS = {"MXNetCustom"}
"""What calls operators of users, registered by importing ``netweave.mxnet``; ``tests/mxnet`` has it."""


def test_every_operator_has_a_case():
    assert {case.op_type for case in CASES} == set(all_operators()) - OF_USERS


@pytest.mark.parametrize("case", CASES, ids=str)
def test_forward_is_the_registrys(case):
    expected = find_operator(case.op_type).forward(case.inputs, case.attributes)
    found = net_of(case).eval().run({f"x{i}": array for i, array in enumerate(case.inputs)})
    for y, name in zip(expected, found, strict=True):
        assert found[name].shape == y.shape
        np.testing.assert_allclose(found[name], y, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradient_is_the_registrys_or_that_of_its_forward(case):
    inputs = [torch.tensor(array, requires_grad=True) for array in case.inputs]
    y = net_of(case).train()(**{f"x{i}": tensor for i, tensor in enumerate(inputs)})
    first = y["y0"]
    if case.op_type in METRICS:
        assert not first.requires_grad
        return
    above = torch.from_numpy(np.asarray(RNG.uniform(0.5, 2, first.shape)))
    above = above * (first != np.finfo(np.float64).min)  # an empty window
    first.backward(above)
    for index, expected in enumerate(expected_gradients(case, above.numpy())):
        found = inputs[index].grad
        if expected is None:
            assert found is None or not found.any(), f"input {index} has a gradient"
        else:
            name = f"input {index}"
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("case", [case for case in CASES if case.op_type == "ChannelLRN"], ids=str)
def test_the_registrys_gradient_is_that_of_its_forward(case):
    """Where a source defines the gradient of what it computes, the two can be held against each other."""
    (x,) = case.inputs
    above = RNG.uniform(0.5, 2, x.shape)
    operator = find_operator(case.op_type)
    outputs = operator.forward(case.inputs, case.attributes)
    (found,) = operator.gradient(case.inputs, outputs, [above], case.attributes)
    np.testing.assert_allclose(found, differences(case, 0, above), rtol=1e-6, atol=1e-8)


def expected_gradients(case, above):
    operator = find_operator(case.op_type)
    if operator.gradient is not None:
        outputs = operator.forward(case.inputs, case.attributes)
        rest = [np.zeros_like(y) for y in outputs[1:]]
        return operator.gradient(case.inputs, outputs, [above, *rest], case.attributes)
    return [differences(case, index, above) for index in range(len(case.inputs))]


def differences(case, index, above, step=1e-6):
    """Return the gradient of the registry's forward by central differences, element by element."""
    forward = find_operator(case.op_type).forward
    gradient = np.zeros_like(case.inputs[index])
    for place in np.ndindex(gradient.shape):
        values = []
        for sign in (1, -1):
            arrays = [array.copy() for array in case.inputs]
            arrays[index][place] += sign * step
            values.append((forward(arrays, case.attributes)[0] * above).sum())
        gradient[place] = (values[0] - values[1]) / (2 * step)
    return gradient
