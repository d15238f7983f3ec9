"""Nets that are fitted by MXNet and by Netweave: the same start, the same batches.

``tests/oracles/mxnet_fits.py`` runs them by MXNet. Nothing here imports either.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH, RECORDS, EPOCHS = 16, 96, 3


@dataclass(frozen=True)
class Fit:
    """A net, its optimizer, and its metric."""

    make: Callable[[Any], Any]
    optimizer: str
    settings: dict[str, Any]
    metric: str = "ce"
    shape: tuple[int, ...] = (3, 8, 8)
    classes: int = 5
    extra: dict[str, Any] = field(default_factory=dict)


def images(sym):
    net = sym.Convolution(sym.Variable("data"), num_filter=6, kernel=(3, 3), no_bias=True, name="conv1")
    net = sym.Activation(sym.BatchNorm(net, fix_gamma=False, name="bn1"), act_type="relu")
    net = sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max")
    net = sym.FullyConnected(sym.Flatten(net), num_hidden=5, name="fc1")
    return sym.SoftmaxOutput(net, name="softmax")


def fixed(sym):
    """BatchNorm as MXNet has it by default: gamma is an argument, and 1 whatever it starts from."""
    net = sym.Convolution(sym.Variable("data"), num_filter=6, kernel=(3, 3), name="conv1")
    net = sym.Activation(sym.BatchNorm(net, name="bn1"), act_type="relu")
    net = sym.FullyConnected(sym.Flatten(net), num_hidden=5, name="fc1")
    return sym.SoftmaxOutput(net, name="softmax")


def rows(sym):
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=7, name="fc1", attr={"__lr_mult__": "0.5"})
    net = sym.FullyConnected(sym.Activation(net, act_type="tanh"), num_hidden=5, name="fc2")
    return sym.SoftmaxOutput(net, name="softmax")


def numbers(sym):
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=7, name="fc1")
    net = sym.FullyConnected(sym.Activation(net, act_type="sigmoid"), num_hidden=1, name="fc2")
    return sym.LinearRegressionOutput(net, sym.Variable("softmax_label"), name="out")


FITS = {
    "sgd": Fit(images, "sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 1e-3}),
    "adam": Fit(images, "adam", {"learning_rate": 0.01}),
    "fixed": Fit(fixed, "sgd", {"learning_rate": 0.1, "momentum": 0.9}),
    "rows": Fit(rows, "nag", {"learning_rate": 0.2, "momentum": 0.9, "wd": 1e-2}, shape=(12,)),
    "clipped": Fit(rows, "sgd", {"learning_rate": 0.5, "clip_gradient": 0.01}, metric="acc", shape=(12,)),
    "numbers": Fit(numbers, "rmsprop", {"learning_rate": 0.02}, metric="mse", shape=(12,), classes=0),
}


CONTEXTS = [
    ("sgd", 2, "local"),
    ("sgd", 3, "local"),
    ("adam", 2, "device"),
    ("fixed", 4, "local"),
    ("rows", 2, "local"),
    ("rows", 3, "device"),
    ("clipped", 3, "local"),
    ("numbers", 2, "device"),
]
"""Fits on several contexts: the net, their number (of which 3 does not divide the batch), and the store."""


def records(fit: Fit) -> tuple[np.ndarray, np.ndarray]:
    """Return data and labels; labels follow from data, so that there is something to learn."""
    generator = np.random.RandomState(7)
    data = generator.normal(size=(RECORDS, *fit.shape)).astype(np.float32)
    flat = data.reshape(RECORDS, -1)[:, :12]
    scores = flat @ generator.normal(size=(12, max(fit.classes, 1)))
    labels = scores.argmax(1) if fit.classes else scores[:, 0] / 4
    return data, labels.astype(np.float32)


def first_values(shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Return the arrays that both start from, by name."""
    generator = np.random.RandomState(11)
    made: dict[str, np.ndarray] = {}
    for name in sorted(shapes):
        drawn = generator.normal(size=shapes[name]).astype(np.float32) * 0.3
        scale = name.endswith(("_gamma", "_moving_var"))
        made[name] = (1 + np.abs(drawn) if scale else drawn).astype(np.float32)
    return made
