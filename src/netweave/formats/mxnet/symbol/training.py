"""The solvers that the names and settings of MXNet's optimizers ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netweave.errors import UsageError
from netweave.job import Policy, Solver

RATES = {
    "adadelta": 1.0,
    "adam": 0.001,
    "adamax": 0.002,
    "ftrl": 0.1,
    "lamb": 0.001,
    "nadam": 0.001,
    "rmsprop": 0.001,
    "signum": 0.01,
}
"""Learning rates that MXNet's optimizers have by default; the others have none: the scheduler's, or 0.01."""

DEFAULT_BASE_LR = 0.01
"""``base_lr`` of MXNet's schedulers where their constructor is not given one."""

DECAYED = ("_weight", "_gamma")
"""Ends of the names of arrays that weight decay is for (python/mxnet/optimizer, ``set_wd_mult``)."""


def mxnet_solver(optimizer: str, settings: Mapping[str, Any], *, rescale_grad: float) -> Solver:
    """Return the solver that MXNet's names ask for.

    Args:
        optimizer: ``sgd``, ``adam``, ...
        settings: The optimizer's own, with ``learning_rate`` and, if wanted, ``lr_scheduler``: a mapping with
            ``kind`` (``factor``, ``multifactor``, ``poly``, ``cosine``) and the scheduler's settings. As in
            MXNet, ``poly`` and ``cosine`` start from the scheduler's own ``base_lr``, 0.01 by default.
        rescale_grad: Factor of the gradients where the settings do not say.

    Raises:
        UsageError: A scheduler is no mapping with a ``kind``, or a rate is no number.
    """
    name = optimizer.lower()  # mx.optimizer.create does so, too
    own = {"rescale_grad": rescale_grad, **settings}
    rate, scheduler = own.pop("learning_rate", None), own.pop("lr_scheduler", None)
    policy = _constant_rate(name, rate) if scheduler is None else _scheduled_rate(name, rate, scheduler)
    return Solver(f"mxnet.{name}", policy, own)


def _constant_rate(optimizer: str, rate: Any) -> Policy:
    rate = RATES.get(optimizer, 0.01) if rate is None else _number("learning_rate", rate)
    return Policy("mxnet.fixed", rate)


def _scheduled_rate(optimizer: str, rate: Any, scheduler: Any) -> Policy:
    try:
        settings = {"base_lr": DEFAULT_BASE_LR, **scheduler}
        kind = settings.pop("kind")
    except (TypeError, ValueError, KeyError) as error:
        raise UsageError(
            f"lr_scheduler is {scheduler!r:.60}, expected a mapping such as "
            "{'kind': 'factor', 'step': 100, 'factor': 0.5}"
        ) from error
    own_rate = settings["base_lr"] = _number("base_lr", settings["base_lr"])
    rate = RATES.get(optimizer, own_rate) if rate is None else _number("learning_rate", rate)
    # MXNet's Ftrl keeps its learning rate to itself, so that a scheduler goes by its own.
    return Policy(f"mxnet.{kind}", own_rate if optimizer == "ftrl" else rate, settings)


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} is {value!r:.60}, expected a number") from error
