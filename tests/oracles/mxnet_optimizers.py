"""Let MXNet's optimizers and learning-rate schedulers run, and write where they get to.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.mxnet_optimizers

Writes ``tests/golden/mxnet_optimizers.json``: the weights after the steps of ``descent``, float32, and the
rate of a scheduler at many updates.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np

from tests.oracles import descent, golden

GOLDEN = Path(__file__).parent.parent / "golden" / "mxnet_optimizers.json"

SCHEDULERS = {
    "factor": [{"step": 7, "factor": 0.5}, {"step": 3, "factor": 0.1, "stop_factor_lr": 1e-4}],
    "multifactor": [{"step": [5, 6, 20], "factor": 0.1, "warmup_steps": 4, "warmup_begin_lr": 0.02}],
    "poly": [{"max_update": 40, "pwr": 2, "final_lr": 0.001}, {"max_update": 30, "warmup_steps": 10}],
    "cosine": [
        {"max_update": 40},
        {"max_update": 40, "warmup_steps": 5, "warmup_begin_lr": 0.01, "warmup_mode": "constant"},
    ],
}

OWN_RATES = [
    ("factor", {"base_lr": 0.2, "step": 7, "factor": 0.5, "warmup_steps": 4}),
    ("multifactor", {"base_lr": 0.2, "step": [5, 20], "factor": 0.1, "warmup_steps": 4}),
    ("poly", {"base_lr": 0.2, "max_update": 40, "warmup_steps": 4}),
    ("poly", {"max_update": 40}),
    ("cosine", {"base_lr": 0.2, "max_update": 40}),
]
"""Schedulers, most with a ``base_lr`` of their own, which an optimizer overwrites in part."""

OPTIMIZERS = [("sgd", {"learning_rate": 0.05}), ("SGD", {}), ("adam", {}), ("ftrl", {"learning_rate": 0.05})]
"""Optimizers that such schedulers are given to."""

CLASSES = {
    "factor": mx.lr_scheduler.FactorScheduler,
    "multifactor": mx.lr_scheduler.MultiFactorScheduler,
    "poly": mx.lr_scheduler.PolyScheduler,
    "cosine": mx.lr_scheduler.CosineScheduler,
}


def main() -> None:
    """Write the golden file."""
    content = {
        "optimizers": [
            {"name": name, "settings": settings, "weights": descend(name, settings)}
            for name, rows in descent.OPTIMIZERS.items()
            for settings in rows
        ],
        "schedulers": [
            {"name": name, "settings": settings, "rates": rates(name, settings)}
            for name, rows in SCHEDULERS.items()
            for settings in rows
        ],
        "scheduled": [
            {
                "name": f"{name}-{kind}",
                "optimizer": name,
                "settings": settings,
                "scheduler": {"kind": kind, **own},
                "rates": optimizer_rates(name, settings, CLASSES[kind](**own)),
            }
            for name, settings in OPTIMIZERS
            for kind, own in OWN_RATES
        ],
    }
    golden.write_json(GOLDEN, content)


def descend(name: str, settings: dict[str, Any]) -> dict[str, list[float]]:
    """Return the weights after all steps, by key."""
    keys = list(descent.start(name))
    # Ftrl does not hand its learning rate on to the scheduler, so that is told, too
    scheduler = mx.lr_scheduler.FactorScheduler(descent.EVERY, descent.DROP, base_lr=descent.RATE)
    optimizer = mx.optimizer.create(
        name,
        learning_rate=descent.RATE,
        lr_scheduler=scheduler,
        param_idx2name=dict(enumerate(keys)),
        **settings,
    )
    optimizer.set_lr_mult(dict(descent.LR_MULT))
    updater = mx.optimizer.get_updater(optimizer)
    weights = {key: mx.nd.array(array) for key, array in descent.start(name).items()}
    for _ in range(descent.STEPS):
        for index, key in enumerate(keys):
            gradient = descent.gradient(key, weights[key].asnumpy())
            updater(index, mx.nd.array(gradient), weights[key])
    return {key: [float(f"{x:.8e}") for x in weights[key].asnumpy().ravel()] for key in keys}


def rates(name: str, settings: dict[str, Any]) -> list[float]:
    """Return a scheduler's rates at updates 1 to 50."""
    scheduler = CLASSES[name](base_lr=descent.RATE, **settings)
    return [float(np.float64(scheduler(update))) for update in range(1, 51)]


def optimizer_rates(
    name: str, settings: dict[str, Any], scheduler: mx.lr_scheduler.LRScheduler
) -> list[float]:
    """Return the learning rates of an optimizer that has a scheduler, at updates 1 to 50."""
    optimizer = mx.optimizer.create(name, lr_scheduler=scheduler, **settings)
    rates = []
    for _ in range(50):
        optimizer._update_count(0)
        rates.append(float(np.float64(optimizer._get_lr(0))))
    return rates


if __name__ == "__main__":
    main()
