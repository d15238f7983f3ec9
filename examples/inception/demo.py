"""Build an Inception-style net of symbols, fit it to handwritten digits, and keep what it learnt.

Run it with ``python -m examples.inception.demo`` in the folder above ``examples``. It writes
``inception-symbol.json``, which MXNet reads too, ``inception.svg``, a picture of the net, and
``inception.onnx``, the net with what it learnt.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import netweave
import netweave.mxnet as mx
from netweave import symbol as sym

if TYPE_CHECKING:
    from netweave.formats.mxnet.symbol import Symbol

HERE = Path(__file__).parent
SIZE = 16
"""Height and width of the images: the digits' 8 pixels, each twice."""


def convolution(x: Symbol, width: int, kernel: int, name: str) -> Symbol:
    """Return a convolution that keeps the size, normalised, behind a rectifier."""
    pad = (kernel // 2, kernel // 2)
    x = sym.Convolution(x, num_filter=width, kernel=(kernel, kernel), pad=pad, no_bias=True, name=name)
    x = sym.BatchNorm(x, fix_gamma=False, momentum=0.9, name=f"{name}_bn")
    return sym.Activation(x, act_type="relu", name=f"{name}_relu")


def inception(x: Symbol, width: int, name: str) -> Symbol:
    """Return four ways of looking at the same values, side by side (Szegedy et al. 2014)."""
    with sym.Prefix(f"{name}_"):
        ways = [
            convolution(x, width, 1, "1x1"),
            convolution(convolution(x, width // 2, 1, "3x3_reduce"), width, 3, "3x3"),
            convolution(convolution(x, width // 4, 1, "5x5_reduce"), width // 2, 5, "5x5"),
            convolution(
                sym.Pooling(x, kernel=(3, 3), pad=(1, 1), pool_type="max", name="pool"), width // 2, 1, "proj"
            ),
        ]
        return sym.Concat(*ways, name="concat")


def net() -> Symbol:
    """Return the net: a stem, two modules of Inception, ten classes."""
    x = convolution(sym.Variable("data"), 16, 3, "stem")
    x = sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max", name="stem_pool")
    x = inception(x, 16, "mixed1")
    x = sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool1")
    x = inception(x, 32, "mixed2")
    x = sym.Pooling(x, kernel=(1, 1), global_pool=True, pool_type="avg", name="pool2")
    x = sym.FullyConnected(sym.Flatten(x), num_hidden=10, name="classes")
    return sym.SoftmaxOutput(x, name="softmax")


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return images to learn from, images to judge by, and the labels of both, classes evenly split."""
    found = load_digits()
    images = np.kron(found.images / 16.0, np.ones((2, 2)))[:, None].astype(np.float32)
    labels = found.target.astype(np.float32)
    learn, judge, learn_labels, judge_labels = train_test_split(
        images, labels, test_size=360, stratify=labels, random_state=0
    )
    return learn, judge, learn_labels, judge_labels


def main(epochs: int = 6) -> int:
    """Return 0 if the net learnt, and the file that is written computes what it computes."""
    logging.basicConfig(format="%(message)s", stream=sys.stdout)
    logging.getLogger("netweave").setLevel(logging.INFO)
    learn, judge, learn_labels, judge_labels = digits()
    symbol = net()
    shape = (1, 1, SIZE, SIZE)
    print(f"{len(symbol.get_internals())} values")
    symbol.save(HERE / "inception-symbol.json")
    (HERE / "inception.svg").write_text(symbol.plot(data=shape), encoding="utf-8")

    mx.random.seed(0)
    module = mx.mod.Module(symbol, logger=logging.getLogger("netweave"))
    judged = mx.io.NDArrayIter(judge, judge_labels, 40)
    module.fit(
        mx.io.NDArrayIter(learn, learn_labels, 48, shuffle=True),
        judged,
        num_epoch=epochs,
        optimizer="adam",
        optimizer_params={"learning_rate": 0.003},
        initializer=mx.init.MSRAPrelu(),
        eval_metric=["accuracy", "ce"],
    )
    accuracy = dict(module.score(judged, "accuracy"))["accuracy"]
    print(f"accuracy = {accuracy:.4f}")

    arrays = {name: array.asnumpy() for kind in module.get_params() for name, array in kind.items()}
    graph = symbol.graph(arrays=arrays, data=shape)
    netweave.save(graph, HERE / "inception.onnx")
    verdict = str(netweave.compare(graph, HERE / "inception.onnx"))
    print(verdict)
    return 0 if accuracy > 0.97 and "identical" in verdict else 1


if __name__ == "__main__":
    sys.exit(main())
