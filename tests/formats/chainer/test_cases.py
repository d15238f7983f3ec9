"""Every function and link that is recorded computes what Chainer 7.8.1 computes; all have a case."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import netweave
from netweave.files.model_imports import imported
from netweave.formats.chainer.shim import installed
from netweave.formats.chainer.shim.functions import FUNCTIONS
from netweave.formats.chainer.shim.links import LINKS
from tests.oracles.chainer_models import CASE_SIZES, CASES, GOLDEN

OPERATORS = {"div", "mul", "neg", "pow", "sub"}
"""Functions that Chainer has as operators of Python alone."""

ELSEWHERE = {
    "functions": {
        "accuracy",
        "astype",
        "batch_normalization",
        "mean_absolute_error",
        "softmax_cross_entropy",
        "upsampling_2d",
    },
    "links": {
        "GoogLeNet",
        "ResNet101Layers",
        "ResNet152Layers",
        "ResNet50Layers",
        "VGG16Layers",
        "VGG19Layers",
    },
}
"""What judges, places in windows, and the nets that come with Chainer: other tests hold them."""


def cases(name: str) -> dict[str, object]:
    with installed(is_training=False):
        found: dict[str, object] = getattr(imported(Path(CASES)), name.upper())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", CASE_SIZES)
def test_each_makes_what_chainer_makes(name):
    golden = np.load(GOLDEN / f"{name}-made.npz")
    shapes = {"x": CASE_SIZES[name]}
    net = netweave.load(f"{CASES}:{name}", GOLDEN / f"{name}.npz", trust=True, input_shapes=shapes)
    found = list(netweave.run(net, {"x": golden["x"]}).values())
    assert len(golden.files) == 1 + len(found)
    wrong = []
    for number, made in enumerate(found):
        wanted = golden[f"y{number}"].astype(np.float64)
        rms = float(np.sqrt(np.mean(np.square(wanted)))) or 1.0
        if made.shape != wanted.shape or not np.allclose(made, wanted, atol=1e-5 * rms, rtol=1e-5):
            wrong.append((net.outputs[number].name, made.shape, wanted.shape))
    assert not wrong


@pytest.mark.parametrize(("kind", "table"), [("functions", FUNCTIONS), ("links", LINKS)])
def test_every_one_has_a_case(kind, table):
    named = {name.partition(" ")[0] for name in cases(kind)}
    assert sorted(set(table) - named - ELSEWHERE[kind]) == []
    assert named <= set(table) | OPERATORS
