"""Parts of a batch computed side by side, which together are the whole: losses, shares, statistics."""

from __future__ import annotations

import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from netweave import api  # noqa: E402 - after the check for torch
from netweave.runtime.backends.torch import TorchNet  # noqa: E402
from netweave.runtime.backends.torch.whole_batch import WholeBatch  # noqa: E402

SIZES = (3, 6, 1)
"""Records in each part: uneven on purpose."""

NET = """name: "parts"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 10 dim: 3 dim: 4 dim: 4 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 10 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 5 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "bn" }
layer { name: "scale" type: "Scale" bottom: "bn" top: "scale" scale_param { bias_term: true } }
layer { name: "ip" type: "InnerProduct" bottom: "scale" top: "ip"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "LOSS" bottom: "ip" bottom: "label" top: "loss" loss_param { PARAM } }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy"
  accuracy_param { ignore_label: 3 } }
"""


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value, room):
        ctx.room = room
        return room.sum(value.detach())

    @staticmethod
    def backward(ctx, gradient):
        return ctx.room.sum(gradient), None


class Room:
    """Where threads put tensors that all of them get the sum of."""

    def __init__(self, parts):
        self._barrier = threading.Barrier(parts, timeout=20)
        self._there = {}

    def sum(self, value):
        self._there[threading.current_thread().name] = value.clone()
        self._barrier.wait()
        total = sum(self._there[name] for name in sorted(self._there))
        self._barrier.wait()
        return total


class Part(WholeBatch):
    """One of several parts."""

    parts = len(SIZES)

    def __init__(self, room):
        self._room = room

    def total(self, value):
        return _Sum.apply(value, self._room)


def made(folder, loss, param):
    (folder / "net.prototxt").write_text(NET.replace("LOSS", loss).replace("PARAM", param))
    torch.manual_seed(0)
    return TorchNet(api.load(folder / "net.prototxt", phase="TRAIN")).to(torch.float64).train()


CASES = [
    ("SoftmaxWithLoss", ""),
    ("SoftmaxWithLoss", "ignore_label: 3"),
    ("SoftmaxWithLoss", "ignore_label: 3 normalization: BATCH_SIZE"),
    ("SoftmaxWithLoss", "ignore_label: 3 normalization: NONE"),
    ("SoftmaxWithLoss", "normalization: FULL"),
    ("HingeLoss", ""),
]


@pytest.mark.parametrize(("loss", "param"), CASES)
def test_the_mean_over_parts_is_the_whole(tmp_path, loss, param):
    """Objective, gradients, moving statistics and shares of a batch in three uneven parts, side by side."""
    draw = np.random.default_rng(0)
    x = torch.tensor(draw.normal(size=(10, 3, 4, 4)))
    labels = torch.tensor(draw.integers(4, size=10)).double()
    whole = made(tmp_path, loss, param)
    expected = whole(data=x, label=labels)
    expected["loss"].backward()
    room = Room(len(SIZES))
    nets = [made(tmp_path, loss, param) for _ in SIZES]
    found = [None] * len(SIZES)

    def compute(number):
        begin = sum(SIZES[:number])
        rows = slice(begin, begin + SIZES[number])
        nets[number].module.batch = Part(room)
        found[number] = nets[number](data=x[rows], label=labels[rows])
        found[number]["loss"].backward()

    threads = [threading.Thread(target=compute, args=(n,), name=f"part {n}") for n in range(len(SIZES))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found), "a part failed"
    mean = sum(outputs["loss"] for outputs in found) / len(SIZES)
    torch.testing.assert_close(mean, expected["loss"], rtol=1e-12, atol=1e-14)
    for outputs in found:
        torch.testing.assert_close(outputs["accuracy"], expected["accuracy"], rtol=1e-12, atol=0)
    for key, gradient in whole.grads.items():
        parts = sum(net.grads[key] for net in nets) / len(SIZES)
        torch.testing.assert_close(parts, gradient, rtol=1e-9, atol=1e-13)
    for key in ("bn/0", "bn/1", "bn/2"):
        for net in nets:
            torch.testing.assert_close(net.params[key], whole.params[key], rtol=1e-12, atol=1e-14)
