"""Gradients of MXNet's operators, and what training does to stored statistics, by torch and by MXNet.

The golden file is written by ``tests/oracles/mxnet_gradients.py``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from netweave.runtime.backends.torch import TorchNet
from tests.formats.mxnet.cases import CASES
from tests.formats.mxnet.test_operators import read_case
from tests.oracles import recipe

GOLDEN = Path(__file__).parent.parent / "golden" / "mxnet_gradients.npz"

with np.load(GOLDEN) as file:
    EXPECTED = dict(file)

MISTAKES = {
    "leaky-selu": "lambda * (y + alpha) for lambda * alpha + y",
    "softmax-activation": "the forward is over the last axis, the gradient over axis 1",
    "softmax-out-grad": "the gradient is multiplied with the output for the gradient from above",
}
"""Gradients of MXNet 1.9.1 that are not those of its own forwards; Netweave's are."""

NAMES = [name for name in CASES if any(key.startswith(f"{name}/") for key in EXPECTED)]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in MISTAKES])
def test_gradients_are_those_of_mxnet(name, tmp_path):
    case = CASES[name]
    graph = read_case(case, tmp_path)
    net = TorchNet(graph).train()
    given = case.arrays(stored=False)
    inputs = {value.name: torch.from_numpy(given[value.name].copy()) for value in graph.inputs}
    for tensor in inputs.values():
        tensor.requires_grad_(tensor.is_floating_point())
    outputs = list(net(**inputs).values())
    above = [
        torch.from_numpy(recipe.image(f"{name}/above {n}", tuple(output.shape), 1.0))
        for n, output in enumerate(outputs)
    ]
    pairs = [(y, g) for y, g in zip(outputs, above, strict=True) if y.requires_grad]
    if pairs:
        torch.autograd.backward(*zip(*pairs, strict=True))
    for key in case.inputs:
        check(name, f"gradient {key}", inputs[key].grad if key in inputs else net.grads.get(key))
        check(name, f"state {key}", net.params.get(key))


def check(name, key, found):
    expected = EXPECTED.get(f"{name}/{key}")
    if expected is None:
        return
    array = np.zeros_like(expected) if found is None else found.detach().numpy()
    scale = np.sqrt(np.nanmean(np.square(expected)))
    np.testing.assert_allclose(array, expected, rtol=1e-3, atol=1e-4 * scale + 1e-7, err_msg=key)
