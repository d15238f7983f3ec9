"""SINGA's updaters, rate changes and averaging of shared gradients once more, in NumPy.

Written from the tables of updaters and of learning rates in the notes on SINGA 0.1 to 0.3, formula by
formula, in the type of the arrays: numbers of the settings are rounded to it first, as SINGA keeps them as
floats. Each updater takes weights, the gradient as the server has it (clipped, averaged, decayed), kept
arrays (a dictionary, empty at first) and the local rate, and returns the new weights.
"""

from __future__ import annotations

import math

import numpy as np

CLIPPING = {"sgd", "nesterov", "adagrad", "rmsprop"}
"""The updaters that clip; they do so before the gradient is averaged."""


def server_gradient(kind, w, g, decay, *, shares=1, clip_low=0.0, clip_high=0.0):
    """clip; times 1 / num_total; plus wd times w."""
    if kind in CLIPPING and clip_high > clip_low:
        g = np.minimum(np.maximum(g, clip_low), clip_high)
    g = g * w.dtype.type(1.0 / shares)
    return g + w.dtype.type(decay) * w if decay > 0 else g


def zeros(kept, name, w):
    return kept.setdefault(name, np.zeros_like(w))


def sgd(w, g, kept, lr, momentum=0.0):
    if not momentum > 0:
        return w - lr * g
    kept["h"] = momentum * zeros(kept, "h", w) - lr * g
    return w + kept["h"]


def nesterov(w, g, kept, lr, momentum=0.0):
    before = zeros(kept, "h", w)
    kept["h"] = momentum * before + lr * g
    return w - ((1 + momentum) * kept["h"] - momentum * before)


def adagrad(w, g, kept, lr):
    kept["h"] = zeros(kept, "h", w) + g * g
    return w - lr * g / np.sqrt(kept["h"] + w.dtype.type(1e-8))


def rmsprop(w, g, kept, lr, rho, delta=1e-8):
    kept["h"] = rho * zeros(kept, "h", w) + (1 - rho) * g * g
    return w - lr * g / np.sqrt(kept["h"] + delta)


def adadelta(w, g, kept, lr, rho, delta=1e-8):
    kept["h"] = rho * zeros(kept, "h", w) + (1 - rho) * g * g
    t = g * np.sqrt(zeros(kept, "u", w) + delta) / np.sqrt(kept["h"] + delta)
    kept["u"] = rho * kept["u"] + (1 - rho) * t * t
    return w - lr * t


def adam(w, g, kept, lr, beta1, beta2, delta=1e-8):
    kept["m"] = beta1 * zeros(kept, "m", w) + (1 - beta1) * g
    kept["v"] = beta2 * zeros(kept, "v", w) + (1 - beta2) * g * g
    return w - lr * kept["m"] / np.sqrt(kept["v"] + delta)


def adammax(w, g, kept, lr, beta1, beta2, delta=1e-8):
    kept["m"] = beta1 * zeros(kept, "m", w) + (1 - beta1) * g
    kept["u"] = np.maximum(beta2 * zeros(kept, "u", w), np.abs(g)) + delta
    return w - lr * kept["m"] / kept["u"]


def fixed(step, base):
    return base


def step_(step, base, gamma, change_freq):
    return base * gamma ** (step // change_freq)


def linear(step, base, final_lr, change_freq):
    r = step / change_freq
    return (1 - r) * base + r * final_lr


def exponential(step, base, change_freq):
    return base / math.pow(2, step / change_freq)


def inverse(step, base, gamma, pow):  # noqa: A002 - the field's own name
    return base * math.pow(1 + gamma * step, -pow)


def inverse_t(step, base, final_lr):
    return base / (1 + step / final_lr)


class FixedStep:
    """The index goes up by at most one in each call, from 0; base_lr is not used."""

    def __init__(self):
        self.index = 0

    def __call__(self, number, base, step, step_lr):
        if self.index + 1 < len(step) and number >= step[self.index + 1]:
            self.index += 1
        return step_lr[self.index]
