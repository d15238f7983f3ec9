"""Rules that frameworks do not share, each held against its framework's formula.

A row is a rule of one framework as its own files reach it. Where a rule of another framework leaked in, the
numbers are off: the formulas of the rows of one rule differ on their input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import netweave
from netweave import mxnet as mx
from netweave.runtime.backends.torch import TorchNet
from tests.formats.caffe import nets as caffe
from tests.formats.darknet.test_layers import small, written
from tests.formats.singa import nets as singa

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from netweave.graph import Graph

Arrays = dict[str, np.ndarray]


class Step(NamedTuple):
    """What one pass of training gives: the first output, and gradients of its sum by input."""

    output: np.ndarray
    gradients: Arrays


def step(graph: Graph, *arrays: np.ndarray, wanted: str = "") -> Step:
    """Train one batch in float64, without an update."""
    net = TorchNet(graph).to(torch.float64).train()
    names = [value.name for value in graph.inputs]
    given = dict(zip(names, map(torch.from_numpy, map(np.asarray, arrays)), strict=True))
    for name, tensor in given.items():
        given[name] = tensor.double().requires_grad_()
    outputs = net(**given)
    output = outputs[wanted or graph.outputs[0].name]
    if output.requires_grad:
        output.sum().backward()
    gradients = {name: t.grad.numpy() for name, t in given.items() if t.grad is not None}
    return Step(output.detach().numpy(), gradients)


def of_caffe(kind: str, settings: str = "", **shapes: tuple[int, ...]) -> Callable[[Path], Graph]:
    names = " ".join(shapes)
    text = caffe.inputs(**shapes) + caffe.layer(kind, settings, bottoms=names)
    return lambda folder: caffe.load(folder, text, phase="TRAIN")


def of_singa(kind: str, settings: str, *sizes: int) -> Callable[[Path], Graph]:
    text = singa.conf(singa.data(*sizes), singa.layer(kind, settings))
    return lambda folder: singa.load(folder, text, phase="TRAIN")


def of_mxnet(symbol: mx.sym.Symbol, **shapes: tuple[int, ...]) -> Callable[[Path], Graph]:
    def read(folder: Path) -> Graph:
        path = folder / "net-symbol.json"
        symbol.save(str(path))
        return netweave.load(path, input_shapes=shapes)

    return read


def of_darknet(body: str, **sizes: int) -> Callable[[Path], Graph]:
    return lambda folder: netweave.load(written(folder, small(body, **sizes)), phase="TRAIN")


DATA = mx.sym.Variable("data")
OTHER = mx.sym.Variable("other")
FLAT = np.zeros((1, 1, 4, 4))
"""An image of one colour, all of whose windows are ties."""

PLANES = np.random.default_rng(2).normal(size=(2, 6, 4, 4))


def windows(first: bool) -> np.ndarray:
    """Gradient of the sum of maxima of windows 2x2 side by side, of an image of one colour."""
    return np.tile([[1.0, 0], [0, 0]] if first else np.ones((2, 2)), (2, 2))[None, None]


POOLS = "kernel: 2 stride: 2 pool: MAX"
TIES_OF_WINDOWS = {
    "caffe": (of_caffe("Pooling", "pooling_param { kernel_size: 2 stride: 2 }", x=(1, 1, 4, 4)), True),
    "singa kCPooling": (of_singa("kCPooling", f"pooling_conf {{ {POOLS} }}", 1, 4, 4), True),
    # pooling.cc: mshadow's unpool<red::maximum>, whose slope is 1 wherever an element is the maximum
    "singa kPooling": (of_singa("kPooling", f"pooling_conf {{ {POOLS} }}", 1, 4, 4), False),
    "mxnet": (
        of_mxnet(mx.sym.Pooling(DATA, kernel=(2, 2), stride=(2, 2), pool_type="max"), data=(1, 1, 4, 4)),
        True,
    ),
    "mxnet Pooling_v1": (
        of_mxnet(mx.sym.Pooling_v1(DATA, kernel=(2, 2), stride=(2, 2), pool_type="max"), data=(1, 1, 4, 4)),
        False,
    ),
    "darknet": (of_darknet("[maxpool]\nsize=2\nstride=2\npadding=0\n", channels=1, size=4), True),
}


@pytest.mark.parametrize("name", TIES_OF_WINDOWS)
def test_gradient_of_equal_elements_of_a_window(name, tmp_path):
    read, first = TIES_OF_WINDOWS[name]
    image = np.repeat(FLAT, 2, axis=0) if name.startswith("singa") else FLAT
    (found,) = step(read(tmp_path), image).gradients.values()
    np.testing.assert_array_equal(found[:1], windows(first))


def test_gradient_of_equal_elements_of_overlapping_windows(tmp_path):
    """By mshadow's loop: an element gets the gradient of each window whose largest it equals."""
    image = np.random.default_rng(5).integers(0, 3, (2, 2, 6, 7)).astype(float)
    graph = of_singa("kPooling", "pooling_conf { kernel: 3 stride: 2 pool: MAX }", 2, 6, 7)(tmp_path)
    found = step(graph, image)
    wanted = np.zeros_like(image)
    for n, c, row, column in np.ndindex(2, 2, 2, 3):
        place = (n, c, slice(2 * row, 2 * row + 3), slice(2 * column, 2 * column + 3))
        wanted[place] += image[place] == image[place].max()
    np.testing.assert_array_equal(*found.gradients.values(), wanted)


A, B = np.array([[1.0, 2, 5, 0]]), np.array([[1.0, 3, 4, 0]])
TIES_OF_TENSORS = {
    # eltwise_layer.cpp: the first bottom only where it is greater; elemwise_binary_op: ge, lt and le, gt
    "caffe": (of_caffe("Eltwise", "eltwise_param { operation: MAX }", x=(1, 4), z=(1, 4)), [0, 0, 1, 0]),
    "mxnet maximum": (of_mxnet(mx.sym.maximum(DATA, OTHER), data=(1, 4), other=(1, 4)), [1, 0, 1, 1]),
    "mxnet minimum": (of_mxnet(mx.sym.minimum(DATA, OTHER), data=(1, 4), other=(1, 4)), [1, 1, 0, 1]),
    "mxnet scalar": (of_mxnet(mx.sym.maximum(DATA, 2.0), data=(1, 4)), [0, 1, 1, 0]),
    "mxnet max": (of_mxnet(mx.sym.max(DATA, axis=1), data=(2, 4)), [[1, 0, 1, 1], [0, 1, 0, 0]]),
    "mxnet min": (
        of_mxnet(mx.sym.min(DATA, axis=1, keepdims=True), data=(2, 4)),
        [[0, 1, 0, 0], [1, 0, 1, 1]],
    ),
}


@pytest.mark.parametrize("name", TIES_OF_TENSORS)
def test_gradient_of_equal_elements_of_tensors(name, tmp_path):
    read, wanted = TIES_OF_TENSORS[name]
    graph = read(tmp_path)
    rows = np.array([[7.0, 1, 7, 7], [0, 9, 0, 0]])
    arrays = [rows] if name in {"mxnet max", "mxnet min"} else [A, B][: len(graph.inputs)]
    first, *others = step(graph, *arrays).gradients.values()
    np.testing.assert_array_equal(first, np.reshape(wanted, first.shape))
    for other in others:
        np.testing.assert_array_equal(other, 1 - first)


ROWS = np.array([[900.0, -900, 20], [4, 4, 4]])
LABELS = np.array([2.0, 1])
LOG_TINY = np.log(np.finfo(np.float32).tiny)


def log_softmax(rows: np.ndarray) -> np.ndarray:
    shifted = rows - rows.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def test_smallest_probability_of_a_cross_entropy(tmp_path):
    """Caffe bounds at FLT_MIN, MXNet's softmax_cross_entropy at 1e-8, gluon's not at all."""
    exact = -log_softmax(ROWS)[[0, 1], [2, 1]]
    graph = of_caffe("SoftmaxWithLoss", x=(2, 3), z=(2,))(tmp_path)
    assert step(graph, ROWS, LABELS).output == pytest.approx(np.minimum(exact, -LOG_TINY).mean())
    x, labels = mx.nd.array(ROWS), mx.nd.array(LABELS)
    bounded = mx.nd.softmax_cross_entropy(x, labels).asscalar()
    assert bounded == pytest.approx(np.minimum(exact, -np.log(1e-8)).sum(), rel=1e-6)
    losses = mx.gluon.loss.SoftmaxCrossEntropyLoss()(x, labels).asnumpy()
    np.testing.assert_allclose(losses, exact, rtol=1e-6)


class Norm(NamedTuple):
    """Rule of a batch normalisation: its defaults, whether the stored variance is unbiased, and its arrays.

    ``keys`` are those of mean, variance, scale and shift; the last two may be missing.
    """

    read: Callable[[Path], Graph]
    epsilon: float
    kept: float
    unbiased: bool
    keys: tuple[str, ...]


NORM = mx.sym.BatchNorm(DATA, name="bn", fix_gamma=False)
PSPNET = "bn_param { slope_filler { value: 1 } }"
NORMS = {
    # a net without weights begins with one sum: it keeps 0.999 of it, and divides by 1.999
    "caffe": Norm(
        of_caffe("BatchNorm", x=(2, 6, 4, 4)), 1e-5, 0.999 / 1.999, True, ("BatchNorm/0", "BatchNorm/1")
    ),
    "caffe, PSPNet": Norm(
        of_caffe("BN", PSPNET, x=(2, 6, 4, 4)), 1e-5, 0.9, False, ("BN/2", "BN/3", "BN/0", "BN/1")
    ),
    "mxnet": Norm(
        of_mxnet(NORM, data=(2, 6, 4, 4)),
        1e-3,
        0.9,
        False,
        ("bn_moving_mean", "bn_moving_var", "bn_gamma", "bn_beta"),
    ),
}


@pytest.mark.parametrize("name", NORMS)
def test_batch_normalisation(name, tmp_path):
    """The output, and how far a batch moves the stored statistics."""
    rule = NORMS[name]
    graph = rule.read(tmp_path)
    net = TorchNet(graph).to(torch.float64).train()
    before = [net.params[key].detach().numpy().copy().reshape(-1) for key in rule.keys]
    y = net(**{graph.inputs[0].name: torch.from_numpy(PLANES)})[graph.outputs[0].name].detach().numpy()
    axes, each = (0, 2, 3), (slice(None), None, None)
    x = PLANES
    normalised = (x - x.mean(axes)[each]) / np.sqrt(x.var(axes)[each] + rule.epsilon)
    scale, shift = before[2:] if len(before) == 4 else (np.ones(6), np.zeros(6))
    np.testing.assert_allclose(y, normalised * scale[each] + shift[each], atol=1e-6)
    batch = x.mean(axes), x.var(axes, ddof=int(rule.unbiased))
    for key, old, of_batch in zip(rule.keys, before, batch, strict=False):
        new = net.params[key].detach().numpy().reshape(-1)
        np.testing.assert_allclose(new, rule.kept * old + (1 - rule.kept) * of_batch, rtol=1e-6, err_msg=key)


WINDOW = "kernel_size: 3 stride: 2"
COUNTS = {
    "caffe": (of_caffe("Pooling", f"pooling_param {{ {WINDOW} }}", x=(1, 1, 6, 6)), 3),
    "singa": (of_singa("kCPooling", "pooling_conf { kernel: 3 stride: 2 pool: MAX }", 1, 6, 6), 2),
    "mxnet": (of_mxnet(mx.sym.Pooling(DATA, kernel=(3, 3), stride=(2, 2)), data=(1, 1, 6, 6)), 2),
    "mxnet full": (
        of_mxnet(
            mx.sym.Pooling(DATA, kernel=(3, 3), stride=(2, 2), pooling_convention="full"), data=(1, 1, 6, 6)
        ),
        3,
    ),
    "darknet": (of_darknet("[maxpool]\nsize=3\nstride=2\n", channels=1, size=6), 3),
}


@pytest.mark.parametrize("name", COUNTS)
def test_windows_that_overhang(name, tmp_path):
    read, count = COUNTS[name]
    batch = 2 if name == "singa" else 1
    y = step(read(tmp_path), np.random.default_rng(0).normal(size=(batch, 1, 6, 6))).output
    assert y.shape[2:] == (count, count)


EDGE = np.ones((1, 1, 4, 4))
MEANS = {
    "caffe": (
        of_caffe("Pooling", "pooling_param { kernel_size: 2 stride: 2 pad: 1 pool: AVE }", x=(1, 1, 4, 4)),
        0.25,
    ),
    "singa": (of_singa("kCPooling", "pooling_conf { kernel: 2 stride: 2 pad: 1 pool: AVG }", 1, 4, 4), 0.25),
    "singa cuDNN": (
        of_singa("kCudnnPool", "pooling_conf { kernel: 2 stride: 2 pad: 1 pool: AVG }", 1, 4, 4),
        1.0,
    ),
    "mxnet": (
        of_mxnet(
            mx.sym.Pooling(DATA, kernel=(2, 2), stride=(2, 2), pad=(1, 1), pool_type="avg"), data=(1, 1, 4, 4)
        ),
        0.25,
    ),
    "darknet": (of_darknet("[local_avgpool]\nsize=2\nstride=2\npadding=2\n", channels=1, size=4), 1.0),
}


@pytest.mark.parametrize("name", MEANS)
def test_padding_in_means(name, tmp_path):
    read, corner = MEANS[name]
    image = np.repeat(EDGE, 2, axis=0) if name.startswith("singa") else EDGE
    assert step(read(tmp_path), image).output[0, 0, 0, 0] == pytest.approx(corner)


RESPONSES = {
    "caffe": (of_caffe("LRN", "lrn_param { local_size: 3 alpha: 0.5 beta: 0.75 k: 2 }", x=(2, 6, 4, 4)), 2.0),
    "singa": (of_singa("kLRN", "lrn_conf { local_size: 3 alpha: 0.5 beta: 0.75 knorm: 2 }", 6, 4, 4), 2.0),
    "mxnet": (of_mxnet(mx.sym.LRN(DATA, nsize=3, alpha=0.5, beta=0.75), data=(2, 6, 4, 4)), 2.0),
}


@pytest.mark.parametrize("name", RESPONSES)
def test_local_response(name, tmp_path):
    """alpha is divided by the number of channels in all three; MXNet's knorm is 2 by default."""
    read, k = RESPONSES[name]
    squares = np.pad(PLANES**2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    sums = squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]
    wanted = PLANES * (k + 0.5 / 3 * sums) ** -0.75
    np.testing.assert_allclose(step(read(tmp_path), PLANES).output, wanted, rtol=1e-6)


SCALES = {
    "caffe": (of_caffe("Dropout", "dropout_param { dropout_ratio: 0.2 }", x=(1, 1000)), 1.25),
    "caffe, scale_train: false": (
        of_caffe("Dropout", "dropout_param { dropout_ratio: 0.2 scale_train: false }", x=(1, 1000)),
        1.0,
    ),
    "mxnet": (of_mxnet(mx.sym.Dropout(DATA, p=0.2), data=(1, 1000)), 1.25),
    "singa": (of_singa("kDropout", "dropout_conf { dropout_ratio: 0.2 }", 500), 1.25),
}


@pytest.mark.parametrize("name", SCALES)
def test_scale_of_what_dropout_keeps(name, tmp_path):
    read, scale = SCALES[name]
    shape = (2, 500) if name == "singa" else (1, 1000)
    y = step(read(tmp_path), np.ones(shape)).output
    assert set(np.unique(y.round(6))) == {0.0, scale}
    assert 700 < np.count_nonzero(y) < 900
