"""Element-wise layers against their formulas."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.errors import ReadError, UnsupportedError
from tests.formats.caffe.nets import inputs, layer, load, normal, run, stored


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


FORMULAS = [
    ("ReLU", "", lambda x: np.maximum(x, 0)),
    ("ReLU", "relu_param { negative_slope: 0.1 }", lambda x: np.maximum(x, 0) + 0.1 * np.minimum(x, 0)),
    ("ELU", "", lambda x: np.where(x > 0, x, np.exp(x) - 1)),
    ("ELU", "elu_param { alpha: 0.5 }", lambda x: np.where(x > 0, x, 0.5 * (np.exp(x) - 1))),
    ("Sigmoid", "", sigmoid),
    ("TanH", "", np.tanh),
    ("AbsVal", "", np.abs),
    ("BNLL", "", lambda x: np.log1p(np.exp(x))),
    ("Swish", "", lambda x: x * sigmoid(x)),
    ("Swish", "swish_param { beta: 1.5 }", lambda x: x * sigmoid(1.5 * x)),
    ("Clip", "clip_param { min: -0.5 max: 0.25 }", lambda x: np.clip(x, -0.5, 0.25)),
    ("Threshold", "threshold_param { threshold: 0.3 }", lambda x: x > 0.3),
    ("Power", "", lambda x: x),
    ("Power", "power_param { power: 2 scale: 3 shift: 1 }", lambda x: (1 + 3 * x) ** 2),
    ("Power", "power_param { power: 0 scale: 3 }", np.ones_like),
    ("Power", "power_param { shift: -2 }", lambda x: x - 2),
    ("Exp", "", np.exp),
    ("Exp", "exp_param { base: 2 scale: 0.5 shift: 1 }", lambda x: 2 ** (1 + 0.5 * x)),
    ("Exp", "exp_param { base: -1 shift: 3 }", lambda x: np.exp(3 + x)),
    ("Log", "log_param { scale: 0.1 shift: 2 }", lambda x: np.log(2 + 0.1 * x)),
    ("Log", "log_param { base: 10 scale: 0.1 shift: 2 }", lambda x: np.log10(2 + 0.1 * x)),
    ("Dropout", "dropout_param { dropout_ratio: 0.9 }", lambda x: x),
    ("Dropout", "dropout_param { dropout_ratio: 0.9 scale_train: false }", lambda x: 0.1 * x),
]


def test_formulas(tmp_path):
    text = inputs(x=(3, 4, 5)) + "".join(
        layer(kind, settings, tops=f"y{index}") for index, (kind, settings, _) in enumerate(FORMULAS)
    )
    x = normal(3, 4, 5)
    found = run(load(tmp_path, text), x=x)
    for index, (kind, settings, formula) in enumerate(FORMULAS):
        y = found[f"y{index}"]
        assert y.dtype == np.float32
        np.testing.assert_allclose(y, formula(x), rtol=2e-5, atol=1e-6, err_msg=f"{kind} {settings}")


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 4, 5)])
@pytest.mark.parametrize("shared", ["true", "false"])
def test_prelu_has_a_slope_for_each_channel(tmp_path, shape, shared):
    graph = load(tmp_path, inputs(x=shape) + layer("PReLU", f"prelu_param {{ channel_shared: {shared} }}"))
    slope, x = stored(graph)["PReLU/0"], normal(*shape)
    assert slope.shape == (() if shared == "true" else (3,))
    expected = np.where(x > 0, x, x * slope.reshape(-1, *[1] * (len(shape) - 2)))
    np.testing.assert_allclose(run(graph, x=x)["y"], expected, rtol=1e-6)
    assert graph.parameters["PReLU/0"].role == "slope"


def test_layers_in_place_make_a_chain(tmp_path):
    text = inputs(x=(2, 3)) + layer("Power", "power_param { shift: 1 }") + layer(
        "ReLU", bottoms="y", tops="y"
    ) + layer("Exp", bottoms="y", tops="y")  # fmt: skip
    graph, x = load(tmp_path, text), normal(2, 3)
    assert [graph.layers[key].outputs for key in ("Power", "ReLU", "Exp")] == [
        ("y@Power",),
        ("y@ReLU",),
        ("y",),
    ]
    np.testing.assert_allclose(run(graph, x=x)["y"], np.exp(np.maximum(x + 1, 0)), rtol=1e-6)


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("Clip", "clip_param { min: 0 }", "has no 'max'"),
        ("Exp", "exp_param { base: 0 }", "'base' is 0.0, expected -1"),
        ("Log", "log_param { base: 1 }", "'base' is 1.0, expected -1"),
        (
            "Dropout",
            "dropout_param { dropout_ratio: 1 }",
            "'dropout_ratio' is 1.0, expected 0 or more and less",
        ),
    ],
)
def test_wrong_settings_are_named(tmp_path, kind, settings, message):
    with pytest.raises(ReadError, match=rf"net.prototxt:2: layer '{kind}' \({kind}\): {message}"):
        load(tmp_path, inputs(x=(2, 3)) + layer(kind, settings))


@pytest.mark.parametrize("scales", ["true", "false"])
def test_dropout_scales_what_it_keeps_or_what_all_are_outside_training(tmp_path, scales):
    """dropout_layer.cpp of Faster R-CNN's branch: without the scale, what is kept stays as it is."""
    torch = pytest.importorskip("torch")
    from netweave.runtime.backends.torch import TorchNet

    settings = f"dropout_param {{ dropout_ratio: 0.75 scale_train: {scales} }}"
    graph = load(tmp_path, inputs(x=(64, 100)) + layer("Dropout", settings), phase="TRAIN")
    x = torch.ones(64, 100, requires_grad=True)
    kept = 1.0 if scales == "false" else 4.0
    y = TorchNet(graph).train()(x=x)["y"]
    y.sum().backward()
    assert set(y.unique().tolist()) == {0.0, kept}
    assert torch.equal(x.grad, y.detach())
    assert float((y > 0).float().mean()) == pytest.approx(0.25, abs=0.03)
    outside = TorchNet(graph).eval()(x=x)["y"]
    assert outside.unique().tolist() == [0.25 if scales == "false" else 1.0]


@pytest.mark.parametrize("slope", [0, 0.25])
def test_relu6_ends_at_6(tmp_path, slope):
    settings = f"relu6_param {{ negative_slope: {slope} }}"
    graph = load(tmp_path, inputs(x=(2, 5)) + layer("ReLU6", settings))
    x = np.array([[-8, -1, 0, 3, 6], [7, 100, -0.5, 5.5, 6.5]], np.float32)
    expected = np.minimum(np.maximum(x, 0) + slope * np.minimum(x, 0), 6)
    np.testing.assert_allclose(run(graph, x=x)["y"], expected, rtol=1e-6)


ENET = "python_param {{ module: 'spatial_dropout' layer: 'SpatialDropoutLayer' param_str: \"{}\" }}"


def test_spatial_dropout_of_enet_scales_outside_training(tmp_path):
    """spatial_dropout.py, forward: the scale of training, with nothing dropped."""
    text = inputs(x=(2, 3, 4, 5)) + layer("Python", ENET.format("{'phase': 'TEST', 'p': '0.2'}"))
    x = normal(2, 3, 4, 5)
    np.testing.assert_allclose(run(load(tmp_path, text), x=x)["y"], x / 0.8, rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ("{'phase': 'TRAIN', 'p': '0.2'}", UnsupportedError, "drops whole channels"),
        ("{'phase': 'TEST', 'p': '1'}", ReadError, "has the 'p' 1, expected a number between 0 and 1"),
        ("{'phase': 'TEST'}", ReadError, "'param_str' has no number 'p'"),
        ("0.2", ReadError, "'param_str' has no number 'p'"),
    ],
)
def test_spatial_dropout_that_cannot_be_read_is_refused(tmp_path, settings, error, message):
    with pytest.raises(error, match=message):
        load(tmp_path, inputs(x=(2, 3, 4, 5)) + layer("Python", ENET.format(settings)))
