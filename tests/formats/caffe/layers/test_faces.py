"""Layers for faces against the loops of their sources, element by element, and in training."""

from __future__ import annotations

from math import acos, cos, pi, sin, sqrt

import numpy as np
import pytest

from netweave.errors import ReadError, UnsupportedError
from netweave.graph import find_operator
from netweave.graph.ops.losses import margin_of_angle
from tests.formats.caffe.nets import inputs, layer, load, normal, run

LABELS = np.array([2.0, 0, 3, 3, 1])
X = normal(5, 6).astype(float)
WEIGHT = normal(4, 6).astype(float)
UNIT = WEIGHT / np.linalg.norm(WEIGHT, axis=1, keepdims=True)
ABOVE = normal(5, 4, seed=3).astype(float)


def sign(x):
    return (x > 0) - (x < 0)


def psi(c, margin):
    """Forward_cpu of margin_inner_product_layer.cpp, and coefficients of w and of x from its Backward_cpu."""
    s0 = sign(c)
    if margin == 2:
        return 2 * s0 * c**2 - 1, 4 * s0 * c, -(2 * s0 * c**2 + 1)
    if margin == 3:
        s1 = sign(abs(c) - 0.5)
        s2 = s0 * (1 + s1) - 2
        return s1 * (4 * c**3 - 3 * c) + s2, s1 * (12 * c**2 - 3), -(8 * s1 * c**3 - s2)
    s3 = s0 * sign(2 * c**2 - 1)
    s4 = 2 * s0 + s3 - 3
    first = s3 * (8 * c**4 - 8 * c**2 + 1) + s4
    return first, s3 * (32 * c**3 - 16 * c), -(s3 * (24 * c**4 - 8 * c**2 - 1) - s4)


@pytest.mark.parametrize("margin", [2, 3, 4])
def test_margin_inner_product(margin):
    share, y, slope = 0.7, np.zeros((5, 4)), np.zeros((5, 6))
    for i, j in np.ndindex(5, 4):
        plain, length = float(X[i] @ UNIT[j]), sqrt(float(X[i] @ X[i]))
        own, along_weight, along_row = psi(plain / length, margin)
        along_row /= length
        size = sqrt(along_weight**2 + along_row**2)
        if j == LABELS[i]:
            direction = along_weight / size * UNIT[j] + along_row / size * X[i]
        else:
            own, direction = plain / length, UNIT[j]
        y[i, j] = (length * own + share * plain) / (1 + share)
        slope[i] += ABOVE[i, j] * (direction + share * UNIT[j]) / (1 + share)
    entry, settings = find_operator("MarginInnerProduct"), {"margin": margin}
    given = [X, UNIT, LABELS, np.array([share])]
    outputs = entry.forward(given, settings)
    np.testing.assert_allclose(outputs[0], y, rtol=1e-12)
    by_row, by_weight, *_ = entry.gradient(given, outputs, [ABOVE], settings)
    np.testing.assert_allclose(by_row, slope, rtol=1e-10)
    np.testing.assert_allclose(by_weight, ABOVE.T @ X, rtol=1e-12)


@pytest.mark.parametrize("margin", [1, 2, 3, 4])
def test_psi_is_the_paper_s(margin):
    """A-Softmax: (-1)^k cos(m t) - 2k, for m t between k pi and (k + 1) pi; its slope by differences."""
    for angle in np.linspace(0.01, pi - 0.01, 97):
        k = int(angle * margin / pi)
        wanted = (-1) ** k * cos(margin * angle) - 2 * k
        found, slope = margin_of_angle(np.array(cos(angle)), margin)
        assert found == pytest.approx(wanted, abs=1e-9)
        ends = [margin_of_angle(np.array(cos(angle) + step), margin)[0] for step in (1e-7, -1e-7)]
        assert slope == pytest.approx((ends[0] - ends[1]) / 2e-7, rel=1e-5, abs=1e-5)


def test_center_loss():
    """Forward_cpu and Backward_cpu of center_loss_layer.cpp; centers know no weight of the loss."""
    entry, given = find_operator("CenterLoss"), [X, LABELS, WEIGHT]
    total, moved = 0.0, np.zeros_like(WEIGHT)
    for n in range(4):
        of_class = [i for i in range(5) if LABELS[i] == n]
        total += sum(float(((X[i] - WEIGHT[n]) ** 2).sum()) for i in of_class)
        moved[n] = sum((WEIGHT[n] - X[i] for i in of_class), np.zeros(6)) / (len(of_class) + 1)
    outputs = entry.forward(given, {})
    assert outputs[0] == pytest.approx(total / 10)
    by_row, _, by_center = entry.gradient(given, outputs, [np.array(0.008)], {})
    np.testing.assert_allclose(by_row, 0.008 / 5 * (X - WEIGHT[LABELS.astype(int)]))
    np.testing.assert_allclose(by_center, moved)


@pytest.mark.parametrize(("kind", "margin"), [("HARD", 28.65), ("SOFT", 1.35)])
def test_label_specific_margin(kind, margin):
    """cos(t + m) and cos(m t); their slopes by the cosine, never above 2."""
    cosines = np.linspace(-0.9, 0.95, 20).reshape(5, 4)
    entry = find_operator("LabelSpecificMargin")
    given = [cosines, LABELS, np.array([margin])]
    (y,) = entry.forward(given, {"kind": kind})
    slopes = entry.gradient(given, [y], [np.ones_like(y)], {"kind": kind})[0]
    for i, j in np.ndindex(5, 4):
        wanted, slope = cosines[i, j], 1.0
        if j == LABELS[i]:
            t = acos(cosines[i, j])
            wanted = cos(t + margin / 180 * pi) if kind == "HARD" else cos(margin * t)
            slope = (
                sin(t + margin / 180 * pi) / sin(t) if kind == "HARD" else margin * sin(margin * t) / sin(t)
            )
            if kind == "SOFT" and margin * t > pi - 1e-4:
                continue  # the source bounds the angle, not its multiple
        assert y[i, j] == pytest.approx(wanted, abs=1e-9)
        assert slopes[i, j] == pytest.approx(min(max(slope, 0), 2), abs=1e-6)


def trained(tmp_path, text, **wishes):
    return load(tmp_path, text, phase="TRAIN", **wishes)


HEAD = inputs(x=(5, 6), z=(5,))
ADD = "label_specific_add_param { bias: -0.35 }"
GROWING = "label_specific_add_param { bias_base: 0.1 bias_gamma: 0.5 bias_min: 0 bias_max: 1.8 iteration: 1 }"


def test_a_margin_is_added_at_the_label_where_the_cosine_is_above_it(tmp_path):
    x = np.tile([0.36, 0.35, -0.2, 1, 0.5, 0.1], (5, 1)).astype(np.float32)
    labels = np.array([0.0, 1, 2, 3, 4])
    text = HEAD + layer("LabelSpecificAdd", ADD, bottoms="x z")
    found = run(trained(tmp_path, text), x=x, z=labels)["y"]
    wanted = x.astype(float)
    for row, label in enumerate(labels.astype(int)):
        wanted[row, label] -= 0.35 if x[row, label] > np.float32(0.35) else 0
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    graph = load(tmp_path, text, phase="TEST")
    np.testing.assert_array_equal(run(graph, x=x, z=labels)["y"], x)


def test_counters_go_on_in_training_alone(tmp_path):
    pytest.importorskip("torch")
    import torch

    from netweave.runtime.backends.torch import TorchNet

    text = HEAD + layer("LabelSpecificAdd", GROWING, bottoms="x z", tops="y bias")
    net = TorchNet(trained(tmp_path, text)).train()
    given = {"x": torch.zeros(5, 6), "z": torch.zeros(5)}
    modes = (True, True, False, False, True, True)
    shown = [float(net.train(training)(**given)["bias"]) for training in modes]
    # base + (1 + gamma n) ** power - 1 with n = 1, 2, 3, ..., at most 1.8
    np.testing.assert_allclose(shown, [0.6, 1.1, 1.6, 1.6, 1.6, 1.8], rtol=1e-6)


ONLY_NORM = "inner_product_param { num_output: 4 normalize: true bias_term: false }"
MARGIN = """margin_inner_product_param {
    num_output: 4 type: QUADRUPLE base: 1000 gamma: 0.12 power: 1 lambda_min: 5 }"""


def test_weights_of_length_one_take_the_place_of_the_stored_ones(tmp_path):
    """inner_product_layer.cu; the gradient is that of the new rows, as if they had always been there."""
    pytest.importorskip("torch")
    import torch

    from netweave.runtime.backends.torch import TorchNet

    net = TorchNet(trained(tmp_path, HEAD + layer("InnerProduct", ONLY_NORM))).to(torch.float64).train()
    (weight,) = net.params.values()
    before = weight.detach().clone()
    y = net(x=torch.from_numpy(X), z=torch.from_numpy(LABELS))["y"]
    unit = before / before.norm(dim=1, keepdim=True)
    np.testing.assert_allclose(weight.detach(), unit, rtol=1e-9)
    np.testing.assert_allclose(y.detach(), X @ unit.numpy().T, rtol=1e-9)
    y.backward(torch.from_numpy(ABOVE))
    np.testing.assert_allclose(weight.grad, ABOVE.T @ X, rtol=1e-9)


def test_lambda_falls_with_the_batches(tmp_path):
    pytest.importorskip("torch")
    import torch

    from netweave.runtime.backends.torch import TorchNet

    text = HEAD + layer("MarginInnerProduct", MARGIN, bottoms="x z", tops="y lambda")
    net = TorchNet(trained(tmp_path, text)).train()
    given = {"x": torch.from_numpy(X).float(), "z": torch.from_numpy(LABELS).float()}
    shown = [float(net(**given)["lambda"]) for _ in range(3)]
    np.testing.assert_allclose(shown, [1000 / (1 + 0.12 * n) for n in (1, 2, 3)], rtol=1e-6)


NORM = 'layer { name: "n" type: "Normalize" bottom: "x" top: "y" top: "length" %s }\n'


@pytest.mark.parametrize("kind", ["L1", "L2"])
def test_normalize_without_a_scale(tmp_path, kind):
    graph = load(tmp_path, HEAD + NORM % f'normalize_param {{ normalize_type: "{kind}" }}')
    found = run(graph, x=X, z=LABELS)
    length = np.abs(X).sum(1) if kind == "L1" else np.sqrt((X**2).sum(1))
    np.testing.assert_allclose(found["length"][:, 0], length, rtol=1e-5)
    np.testing.assert_allclose(found["y"], X / length[:, None], rtol=1e-5)


BAD = {
    "angle": (
        layer("LabelSpecificMargin", "", bottoms="x z"),
        ReadError,
        "has no 'margin_base'; set the margin",
    ),
    "distance": (
        layer("CenterLoss", 'center_loss_param { num_output: 3 distance_type: "L3" }', bottoms="x z"),
        ReadError,
        "'distance_type' is 'L3', expected L1 or L2",
    ),
    "norm": (NORM % "norm_param { }", ReadError, "has 'norm_param' of the SSD branch, and"),
    "gradient": (NORM % "normalize_param { fix_gradient: true }", UnsupportedError, "'fix_gradient' is not"),
    "transposed": (
        layer("InnerProduct", "inner_product_param { num_output: 4 normalize: true transpose: true }"),
        UnsupportedError,
        "'normalize' with 'transpose'",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_the_sources_refuse_or_we_do_not_read(name, tmp_path):
    text, kind, message = BAD[name]
    with pytest.raises(kind, match=message):
        trained(tmp_path, HEAD + text)
