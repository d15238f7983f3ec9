"""Let Chainer's optimizers run on the problem of ``descent``, and write where they get to.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.chainer_optimizers

Writes ``tests/golden/chainer_optimizers.json``: the weights after the steps, float32, at a rate that stays.
"""

from __future__ import annotations

import collections
import collections.abc
from pathlib import Path
from typing import Any

import numpy as np

collections.MutableSet = collections.abc.MutableSet  # type: ignore[attr-defined]  # Chainer is of that age

import chainer  # noqa: E402
from chainer import optimizers  # noqa: E402

from tests.oracles import descent, golden  # noqa: E402

GOLDEN = Path(__file__).parent.parent / "golden" / "chainer_optimizers.json"

CASES: list[tuple[str, dict[str, float]]] = [
    ("SGD", {"lr": 0.05}),
    ("MomentumSGD", {"lr": 0.05, "momentum": 0.9}),
    ("AdaGrad", {"lr": 0.05, "eps": 1e-3}),
    ("RMSprop", {"lr": 0.01, "alpha": 0.95, "eps": 1e-3}),
    ("AdaDelta", {"rho": 0.9, "eps": 1e-4}),
    ("Adam", {"alpha": 0.01, "beta1": 0.9, "beta2": 0.99, "eps": 1e-3}),
]
"""Optimizers whose rules are Caffe's by their formulas; NesterovAG takes the velocity after its update."""


class Net(chainer.Link):
    """Parameters without a net."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            for key, array in descent.start().items():
                setattr(self, key, chainer.Parameter(array.copy()))


def main() -> None:
    """Write the golden file."""
    rows: list[dict[str, Any]] = []
    for name, settings in CASES:
        net = Net()
        optimizer = getattr(optimizers, name)(**settings).setup(net)
        for _ in range(descent.STEPS):
            for key in descent.SHAPES:
                parameter = getattr(net, key)
                parameter.grad = descent.gradient(key, parameter.array)
            optimizer.update()
        weights = {
            key: [float(f"{x:.8e}") for x in np.ravel(getattr(net, key).array)] for key in descent.SHAPES
        }
        rows.append({"name": name, "settings": settings, "weights": weights})
    golden.write_json(GOLDEN, rows)


if __name__ == "__main__":
    main()
