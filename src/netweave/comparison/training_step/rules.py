"""Update rules as formulas, and the ways in which implementations of one rule differ.

All is computed in double precision, from the gradients that an optimizer was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from netweave.comparison.training_step.record import Setting

Rule = Mapping[str, Setting]

DEFAULTS: Mapping[str, Mapping[str, Setting]] = {
    "SGD": {"momentum": 0.0, "dampening": 0.0, "nesterov": False},
    "Adam": {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "eps_place": "after", "is_corrected": True},
    "RMSprop": {
        "alpha": 0.99,
        "eps": 1e-8,
        "eps_place": "after",
        "momentum": 0.0,
        "centered": False,
    },
    "Adagrad": {"initial": 0.0, "eps": 1e-10, "eps_place": "after", "lr_decay": 0.0},
}
"""Settings of each kind, besides ``lr`` and those of all.

``eps_place`` says where ``eps`` is added: to the root (``after``), to what the root is taken of (``inside``),
or to the root before the moments are corrected (``correction``): the epsilon-hat of Adam's authors.
"""

COMMON: Mapping[str, Setting] = {
    "weight_decay": 0.0,
    "is_decoupled": False,
    "maximize": False,
    "is_reset": True,
}
"""Settings of all kinds; gradients that are not reset are added up over the updates."""


def completed(stated: Rule) -> Rule | None:
    """Return a rule with the settings that are not stated; None for a kind without a formula here."""
    known = DEFAULTS.get(str(stated.get("kind")))
    if known is None:
        return None
    return {
        "lr": 0.0,
        **COMMON,
        **known,
        **{key: value for key, value in stated.items() if value is not None},
    }


def updated(rule: Rule, weight: np.ndarray, gradients: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return a weight after each update.

    Args:
        rule: The settings.
        weight: The weight before the first one.
        gradients: Of each update.
    """
    weights = [weight.astype(np.float64)]
    rate = float(rule["lr"] or 0)
    for step in _directions(rule, weights, gradients):
        weights.append(weights[-1] - rate * step)
    return weights[1:]


def rates(
    rule: Rule, weights: Sequence[np.ndarray], gradients: Sequence[np.ndarray], tolerance: float
) -> list[float]:
    """Return the learning rate of each update; empty if no rates give these weights.

    Args:
        rule: The settings; its rate is not looked at.
        weights: Before the first update, and after each.
        gradients: Of each update.
        tolerance: Largest error, relative to an update.
    """
    found = []
    for number, step in enumerate(_directions(rule, weights, gradients)):
        moved = weights[number] - weights[number + 1]
        power = float((step * step).sum())
        rate = float((moved * step).sum()) / power if power else 0.0
        apart = float(np.abs(rate * step - moved).max(initial=0.0))
        if not rate or apart > tolerance * float(np.abs(moved).max(initial=0.0)):
            return []
        found.append(float(f"{rate:.6g}"))
    return found


def _directions(
    rule: Rule, weights: Sequence[np.ndarray], gradients: Sequence[np.ndarray]
) -> Iterator[np.ndarray]:
    """Yield what each update subtracts for a rate of 1; ``weights`` may grow meanwhile."""
    step = _STEPS[str(rule["kind"])]
    held: dict[str, np.ndarray] = {}
    decay = float(rule["weight_decay"] or 0)
    total: np.ndarray | float = 0.0
    for number, gradient in enumerate(gradients, 1):
        weight = weights[number - 1]
        total = gradient.astype(np.float64) + (0.0 if rule["is_reset"] else total)
        g = -total if rule["maximize"] else total
        if rule["is_decoupled"]:
            yield step(rule, g, held, number) + decay * weight
        else:
            yield step(rule, g + decay * weight, held, number)


def _sgd(rule: Rule, g: np.ndarray, held: dict[str, np.ndarray], number: int) -> np.ndarray:
    momentum = float(rule["momentum"] or 0)
    if not momentum:
        return g
    kept = 1 - float(rule["dampening"] or 0)
    buffer = held["buffer"] = momentum * held["buffer"] + kept * g if "buffer" in held else g
    return g + momentum * buffer if rule["nesterov"] else buffer


def _adam(rule: Rule, g: np.ndarray, held: dict[str, np.ndarray], number: int) -> np.ndarray:
    beta1, beta2 = float(rule["beta1"] or 0), float(rule["beta2"] or 0)
    m = held["m"] = beta1 * held.get("m", np.zeros_like(g)) + (1 - beta1) * g
    v = held["v"] = beta2 * held.get("v", np.zeros_like(g)) + (1 - beta2) * g * g
    first, second = (1 - beta1**number, 1 - beta2**number) if rule["is_corrected"] else (1.0, 1.0)
    if rule["eps_place"] == "correction":
        return np.asarray(np.sqrt(second) / first * m / (np.sqrt(v) + rule["eps"]))
    return _divided(m / first, v / second, rule)


def _rmsprop(rule: Rule, g: np.ndarray, held: dict[str, np.ndarray], number: int) -> np.ndarray:
    alpha = float(rule["alpha"] or 0)
    v = held["v"] = alpha * held.get("v", np.zeros_like(g)) + (1 - alpha) * g * g
    if rule["centered"]:
        mean = held["mean"] = alpha * held.get("mean", np.zeros_like(g)) + (1 - alpha) * g
        v = v - mean * mean
    step = _divided(g, v, rule)
    if not rule["momentum"]:
        return step
    held["buffer"] = float(rule["momentum"]) * held.get("buffer", np.zeros_like(g)) + step
    return held["buffer"]


def _adagrad(rule: Rule, g: np.ndarray, held: dict[str, np.ndarray], number: int) -> np.ndarray:
    total = held["sum"] = held.get("sum", np.full_like(g, float(rule["initial"] or 0))) + g * g
    return _divided(g, total, rule) / (1 + (number - 1) * float(rule["lr_decay"] or 0))


def _divided(step: np.ndarray, square: np.ndarray, rule: Rule) -> np.ndarray:
    eps = float(rule["eps"] or 0)
    if rule["eps_place"] == "inside":
        return np.asarray(step / np.sqrt(square + eps))
    return np.asarray(step / (np.sqrt(np.maximum(square, 0)) + eps))


_STEPS: Mapping[str, Callable[[Rule, np.ndarray, dict[str, np.ndarray], int], np.ndarray]] = {
    "SGD": _sgd,
    "Adam": _adam,
    "RMSprop": _rmsprop,
    "Adagrad": _adagrad,
}


@dataclass(frozen=True, slots=True)
class Variant:
    """A rule that differs from another in one respect.

    Attributes:
        rule: It.
        changed: The settings that differ.
    """

    rule: Rule
    changed: tuple[str, ...]


TOGGLES: Mapping[str, Sequence[Setting]] = {
    "is_corrected": (True, False),
    "eps_place": ("after", "inside", "correction"),
    "is_decoupled": (False, True),
    "nesterov": (False, True),
    "centered": (False, True),
    "maximize": (False, True),
    "is_reset": (True, False),
    "initial": (0.0, 0.1),
    "weight_decay": (0.0, 1e-4, 5e-4, 1e-2),
    "momentum": (0.0, 0.9),
    "alpha": (0.9, 0.99),
    "beta1": (0.9,),
    "beta2": (0.99, 0.999),
    "eps": (1e-10, 1e-8, 1e-7, 1e-6, 1e-5, 1e-3),
}
"""Values that implementations give a setting, beside those that the other net has."""


def variants(rule: Rule, other: Rule | None = None) -> Iterator[Variant]:
    """Yield rules that differ from one in a setting, then in two.

    Args:
        rule: The rule.
        other: Settings that the other net states, whatever it does with them.
    """
    single: list[tuple[str, Setting]] = []
    for key, value in rule.items():
        stated = [other[key]] if other is not None and key in other else []
        usual = TOGGLES.get(key, ())
        single += [
            (key, each) for each in dict.fromkeys([*stated, *usual]) if each != value and key != "kind"
        ]
    if "dampening" in rule and rule["momentum"] and not rule["dampening"]:
        single.append(("dampening", rule["momentum"]))
    for key, value in single:
        yield Variant({**rule, key: value}, (key,))
    for index, (key, value) in enumerate(single):
        for key2, value2 in single[index + 1 :]:
            if key2 != key:
                yield Variant({**rule, key: value, key2: value2}, (key, key2))
