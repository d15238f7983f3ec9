"""A small problem for update rules: where it starts, and its gradient; oracles and tests both use it."""

from __future__ import annotations

import numpy as np

from tests.oracles.recipe import uniform

STEPS = 50
SHAPES = {"a_weight": (7, 5), "b_weight": (3, 4, 2, 2), "c_bias": (5,)}
LR_MULT = {"a_weight": 1.0, "b_weight": 0.5, "c_bias": 2.0}
RATE, DROP, EVERY = 0.05, 0.5, 20
"""The learning rate: multiplied by DROP every EVERY updates."""

OPTIMIZERS = {
    "sgd": [
        {"wd": 0.01},
        {"momentum": 0.9, "wd": 0.01, "rescale_grad": 0.25, "clip_gradient": 0.2},
        {"momentum": 0.9, "begin_num_update": 3, "lazy_update": False, "multi_precision": True},
    ],
    "nag": [{"wd": 0.01}, {"momentum": 0.9, "wd": 0.01, "clip_gradient": 0.5}],
    "signum": [{"momentum": 0.9, "wd": 0.01, "wd_lh": 0.1}, {"momentum": 0.0, "wd": 0.01}],
    "dcasgd": [{"wd": 0.01, "lamda": 0.5}],  # with momentum, MXNet's own fails on arrays of two or more
    "adam": [{"wd": 0.01, "clip_gradient": 0.5, "rescale_grad": 0.5}, {"begin_num_update": 3}],
    "adagrad": [{"wd": 0.01}],
    "rmsprop": [
        {"wd": 0.01, "gamma1": 0.95},
        {"wd": 0.01, "centered": True, "epsilon": 1e-4},
        {"wd": 0.01, "clip_weights": 0.7, "epsilon": 1e-2},
    ],
    "adadelta": [{"wd": 0.001}],
    "ftrl": [{"wd": 0.01, "lamda1": 0.05}],
    "adamax": [{"wd": 0.01}],
    "nadam": [{"wd": 0.01}],
    "ftml": [{"wd": 0.01}],
    "lars": [{"wd": 0.01, "momentum": 0.9, "eta": 0.1}],
    "lbsgd": [
        {"wd": 0.01, "momentum": 0.9, "batch_scale": 2, "updates_per_epoch": 4, "clip_gradient": 0.5},
        {"momentum": 0.9, "batch_scale": 3, "updates_per_epoch": 5, "warmup_strategy": "power2"},
        {"batch_scale": 2, "updates_per_epoch": 3, "begin_epoch": 1, "warmup_strategy": "sqrt"},
        {"wd": 0.01, "momentum": 0.5, "batch_scale": 2, "warmup_strategy": "lars", "rescale_grad": 0.5},
    ],
    "groupadagrad": [{}, {"eps": 1e-3, "rescale_grad": 0.5, "clip_gradient": 0.2}],
    "lamb": [{"wd": 0.01}, {"bias_correction": False, "lower_bound": 0.5, "upper_bound": 2.0}],
}
"""MXNet's optimizers by name, each with the settings that it is tried with."""


def start(optimizer: str = "") -> dict[str, np.ndarray]:
    """Return the first weights, float32; GroupAdaGrad is for matrices only."""
    return {
        key: uniform(f"descent {key}", shape)
        for key, shape in SHAPES.items()
        if optimizer != "groupadagrad" or len(shape) == 2
    }


def gradient(key: str, weight: np.ndarray) -> np.ndarray:
    """Return the gradient of a bowl that is steeper along some elements, with shallow waves on it."""
    steep = np.linspace(0.2, 2.0, weight.size, dtype=weight.dtype).reshape(weight.shape)
    wave = np.sin(weight.dtype.type(3) * weight + weight.dtype.type(len(key)))
    return steep * (weight - weight.dtype.type(0.3)) + weight.dtype.type(0.1) * wave
