"""The solver in the section ``[net]`` of a net (parse_net_options, update_network)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.errors import UnsupportedError
from netweave.formats.darknet.losses import images_per_update
from netweave.job import Policy, Solver

if TYPE_CHECKING:
    from netweave.formats.darknet.config import Section

POLICIES = ("constant", "step", "steps", "exp", "poly", "sigmoid", "sgdr")

NOT_DONE = ("mosaic", "cutmix", "mixup", "blur", "gaussian_noise", "letter_box", "angle", "aspect")
"""Augmentations of AlexeyAB's branch, and of classifiers, that are left out."""

NOT_READ = ("adversarial_lr", "contrastive", "ema_alpha", "train_only_bn", "dynamic_minibatch")
"""Settings of AlexeyAB's branch that change what is learned."""


def read_solver(net: Section) -> Solver:
    """Return how gradients change parameters.

    Raises:
        ReadError: A setting is not what it must be.
        UnsupportedError: It asks for something that is not read.
    """
    given = [name for name in NOT_READ if net.number(name, 0.0)]
    if given:
        settings = ", ".join(f"{name}={net.settings[name]}" for name in given)
        raise UnsupportedError(f"{settings}: not supported in training; remove it", place=net.place)
    decay = net.number("decay", 0.0001)
    kind, rule = "darknet.sgd", {"momentum": net.number("momentum", 0.9)}
    if net.flag("adam"):
        kind, rule = "darknet.adam", {name: net.number(name, default) for name, default in _ADAM.items()}
        rule["images"] = images_per_update(net)
    accumulate = net.integer("subdivisions", 1, least=1)
    return Solver(kind, _policy(net), {**rule, "weight_decay": decay}, accumulate=accumulate)


_ADAM = {"B1": 0.9, "B2": 0.999, "eps": 1e-7}


def _policy(net: Section) -> Policy:
    name = net.string("policy", "constant")
    if name not in POLICIES:
        place = net.place_of(net.lines["policy"])
        raise UnsupportedError(f"unknown policy {name!r}, expected {', '.join(POLICIES)}", place=place)
    settings: dict[str, Any] = {"burn_in": net.integer("burn_in", 0), "power": net.number("power", 4.0)}
    return Policy(f"darknet.{name}", net.number("learning_rate", 0.001), settings | _own_settings(net, name))


def _own_settings(net: Section, name: str) -> dict[str, Any]:
    """Return the numbers that a policy reads besides those that all have."""
    most = net.integer("max_batches", 0)
    if name == "steps":
        steps, scales = net.integers("steps"), net.numbers("scales")
        if not steps or len(steps) != len(scales):
            which = "steps" if not steps or net.has("scales") else "scales"
            raise net.read_error(which, f"as many steps as scales, not {len(steps)} and {len(scales)}")
        return {"steps": list(steps), "scales": list(scales)}
    rows: dict[str, dict[str, Any]] = {
        "step": {"step": net.integer("step", 1, least=1), "scale": net.number("scale", 1.0)},
        "exp": {"gamma": net.number("gamma", 1.0)},
        "sigmoid": {"gamma": net.number("gamma", 1.0), "step": net.integer("step", 1)},
        "poly": {"max_batches": most},
        "sgdr": {
            "sgdr_cycle": net.integer("sgdr_cycle", most),
            "sgdr_mult": net.integer("sgdr_mult", 2),
            "learning_rate_min": net.number("learning_rate_min", 0.00001),
        },
    }
    return rows.get(name, {})
