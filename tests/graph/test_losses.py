"""Caffe's losses against the loops of its sources, and their gradients against differences."""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np
import pytest
from onnx_ir import SymbolicDim

from netweave.errors import RunError
from netweave.graph import find_operator
from netweave.graph.ops.losses import SMALLEST

RANDOM = np.random.default_rng(7)
LABELS = np.array([[0, 3, 2], [1, 0, 3]], float)
"""Class numbers for predictions of shape (2, 4, 3)."""


def normal(*shape):
    return RANDOM.standard_normal(shape)


def forward(op_type, inputs, **attributes):
    return find_operator(op_type).forward([np.asarray(x) for x in inputs], attributes)


def softmax(row):
    total = sum(exp(x) for x in row)
    return [exp(x) / total for x in row]


@pytest.mark.parametrize(
    ("normalization", "ignore", "divisor"),
    [
        ("FULL", None, 6),
        ("VALID", None, 6),
        ("VALID", 3, 4),
        ("FULL", 3, 6),
        ("BATCH_SIZE", 3, 2),
        ("NONE", 3, 1),
    ],
)
def test_softmax_with_loss(normalization, ignore, divisor):
    """softmax_loss_layer.cpp: Forward_cpu and get_normalizer."""
    x = normal(2, 4, 3)
    total = 0.0
    for n in range(2):
        for position in range(3):
            label = int(LABELS[n, position])
            if label != ignore:
                total -= log(softmax(x[n, :, position])[label])
    loss, p = forward(
        "SoftmaxWithLoss", [x, LABELS[:, None]], axis=1, normalization=normalization, ignore_label=ignore
    )
    assert loss == pytest.approx(total / divisor)
    np.testing.assert_allclose(p.sum(axis=1), 1)


def test_the_smallest_probability_bounds_the_loss_and_not_its_gradient():
    """Caffe and SINGA take FLT_MIN for less; without a bound the loss is the difference of the scores."""
    x, labels = np.array([[200.0, 0.0]]), np.array([1])
    entry = find_operator("SoftmaxWithLoss")
    bounded, p = forward("SoftmaxWithLoss", [x, labels], min_probability=SMALLEST)
    assert bounded == pytest.approx(87.3365, abs=1e-4)
    assert forward("SoftmaxWithLoss", [x, labels])[0] == 200
    slopes = [
        entry.gradient([x, labels], [bounded, p], [np.array(1.0)], attributes)[0]
        for attributes in ({}, {"min_probability": SMALLEST})
    ]
    np.testing.assert_array_equal(*slopes)


def test_no_label_that_counts_divides_by_one():
    loss, _ = forward("SoftmaxWithLoss", [normal(2, 4), [3, 3]], axis=1, ignore_label=3)
    assert loss == 0


def test_sigmoid_cross_entropy():
    """-(t log p + (1 - t) log(1 - p)), divided by the batch size."""
    x, target = normal(3, 4), RANDOM.random((3, 4))
    p = 1 / (1 + np.exp(-x))
    expected = -(target * np.log(p) + (1 - target) * np.log(1 - p)).sum() / 3
    assert forward("SigmoidCrossEntropyLoss", [x, target], normalization="BATCH_SIZE")[0] == pytest.approx(
        expected
    )


def test_sigmoid_cross_entropy_of_large_inputs():
    (loss,) = forward("SigmoidCrossEntropyLoss", [np.array([[1e4, -1e4]]), np.array([[0.0, 1.0]])])
    assert loss == pytest.approx(2e4 / 2)


def test_euclidean():
    a, b = normal(3, 4), normal(3, 4, 1, 1)
    assert forward("EuclideanLoss", [a, b])[0] == pytest.approx(((a - b[:, :, 0, 0]) ** 2).sum() / 6)


@pytest.mark.parametrize(("norm", "power"), [("L1", 1), ("L2", 2)])
def test_hinge(norm, power):
    """hinge_loss_layer.cpp: the label's score changes sign, then max(0, 1 + x)."""
    x, labels = normal(3, 4), [1, 0, 3]
    total = 0.0
    for n, label in enumerate(labels):
        for k in range(4):
            total += max(0.0, 1 + (-x[n, k] if k == label else x[n, k])) ** power
    assert forward("HingeLoss", [x, labels], norm=norm)[0] == pytest.approx(total / 3)


@pytest.mark.parametrize("legacy", [0, 1])
def test_contrastive(legacy):
    """contrastive_loss_layer.cpp, Forward_cpu."""
    a, b, alike = normal(5, 3), normal(5, 3), [1, 0, 0, 1, 0]
    total = 0.0
    for n in range(5):
        squared = sum((a[n] - b[n]) ** 2)
        if alike[n]:
            total += squared
        elif legacy:
            total += max(2.5 - squared, 0)
        else:
            total += max(2.5 - sqrt(squared), 0) ** 2
    found = forward("ContrastiveLoss", [a, b, alike], margin=2.5, legacy_version=legacy)
    assert found[0] == pytest.approx(total / 10)


def test_multinomial_logistic_takes_probabilities():
    p = np.array([[0.2, 0.8], [1.0, 0.0]])
    expected = -(log(0.8) + log(1e-20)) / 2
    assert forward("MultinomialLogisticLoss", [p, [1, 1]])[0] == pytest.approx(expected)


def test_infogain_with_the_unit_matrix_is_the_softmax_loss():
    x = normal(2, 4, 3)
    plain, _ = forward("SoftmaxWithLoss", [x, LABELS], axis=1)
    assert forward("InfogainLoss", [x, LABELS, np.eye(4)], axis=1)[0] == pytest.approx(plain)


def test_infogain_weighs_all_classes():
    x, gains = normal(1, 3), normal(3, 3)
    expected = -sum(gains[2, k] * log(p) for k, p in enumerate(softmax(x[0])))
    assert forward("InfogainLoss", [x, [2], gains], axis=1)[0] == pytest.approx(expected)


def test_accuracy_counts_ties_against_the_label():
    x = np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 1.0], [3.0, 2.0, 1.0], [3.0, 2.0, 1.0]])
    labels = [0, 1, 1, 2]
    share, by_class = forward("Accuracy", [x, labels], axis=1, top_k=1)
    assert share == 0.25
    np.testing.assert_array_equal(by_class, [0, 0.5, 0])
    assert forward("Accuracy", [x, labels], axis=1, top_k=2)[0] == 0.75
    assert forward("Accuracy", [x, labels], axis=1, top_k=1, ignore_label=2)[0] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("ties", "right"), [("against", [0, 0, 0]), ("lowest", [1, 0, 0]), ("highest", [0, 0, 1])]
)
def test_accuracy_of_equal_classes(ties, right):
    found = [forward("Accuracy", [np.ones((1, 3)), [label]], ties=ties)[0] for label in range(3)]
    assert found == right


CASES = {
    "SoftmaxWithLoss": ([normal(2, 4, 3), LABELS], {"axis": 1, "ignore_label": 3}),
    "SigmoidCrossEntropyLoss": ([normal(3, 4), np.array([[0, 1, -1, 1]] * 3)], {"ignore_label": -1}),
    "EuclideanLoss": ([normal(3, 4), normal(3, 4)], {}),
    "HingeLoss": ([normal(3, 4), np.array([1.0, 0, 3])], {"norm": "L2"}),
    "ContrastiveLoss": ([normal(4, 3), normal(4, 3), np.array([1.0, 0, 0, 1])], {"margin": 3.0}),
    "MultinomialLogisticLoss": ([RANDOM.random((3, 4)) + 0.1, np.array([1.0, 0, 3])], {}),
    "InfogainLoss": ([normal(2, 4, 3), LABELS, normal(4, 4)], {"axis": 1, "ignore_label": 0}),
}


@pytest.mark.parametrize("op_type", CASES)
def test_gradient_is_that_of_the_forward(op_type):
    inputs, attributes = CASES[op_type]
    entry = find_operator(op_type)
    outputs = entry.forward(inputs, attributes)
    gradients = entry.gradient(inputs, outputs, [np.array(2.0)], attributes)
    assert len(gradients) == len(inputs)
    for index, gradient in enumerate(gradients):
        if gradient is None:
            continue
        expected = np.zeros_like(inputs[index], float)
        for position in np.ndindex(expected.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [x.astype(float) for x in inputs]
                moved[index][position] += step
                ends.append(float(entry.forward(moved, attributes)[0]))
            expected[position] = 2.0 * (ends[0] - ends[1]) / 2e-6
        np.testing.assert_allclose(gradient, expected, rtol=2e-3, atol=1e-6)


def test_labels_that_are_no_classes_are_refused():
    with pytest.raises(RunError, match="labels from 1 to 4 for 4 classes, numbered from 0"):
        forward("SoftmaxWithLoss", [normal(2, 4), [1, 4]], axis=1)


def test_shapes_need_one_label_for_each_position():
    batch = SymbolicDim("N")
    rule = find_operator("SoftmaxWithLoss").shapes
    x = (batch, 4, 8, 8)
    assert rule([x, (batch, 1, 8, 8)], {"axis": 1}) == [(), x]
    assert rule([(batch, 4), (batch,)], {"axis": 1})[0] == ()
    with pytest.raises(
        ValueError, match=r"labels of shape \(N, 1, 8, 7\), expected one for each of \(N, 8, 8\)"
    ):
        rule([x, (batch, 1, 8, 7)], {"axis": 1})


@pytest.mark.parametrize(("sigma", "weights"), [(1.0, False), (3.0, True)])
def test_smooth_l1_loss(sigma, weights):
    """smooth_L1_loss_layer.cu: Forward_gpu."""
    inputs = [normal(5, 4), normal(5, 4), *([normal(5, 4), normal(5, 4)] if weights else [])]
    total = 0.0
    for place in np.ndindex(5, 4):
        inside, outside = (inputs[2][place], inputs[3][place]) if weights else (1, 1)
        value = abs((inputs[0][place] - inputs[1][place]) * inside)
        near = value < 1 / sigma**2
        total += (0.5 * value * value * sigma**2 if near else value - 0.5 / sigma**2) * outside
    (loss,) = forward("SmoothL1Loss", inputs, sigma=sigma)
    assert loss == pytest.approx(total / 5)
