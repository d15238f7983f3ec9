"""A run ends with an error, and writes nothing more, once a number of it is nan or inf."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from netweave.errors import RunError
from netweave.runtime.backends.torch import TorchNet
from netweave.runtime.backends.torch.device import parameter_not_finite

if TYPE_CHECKING:
    from netweave.job import Job


def require_finite_parameters(job: Job, net: TorchNet, iteration: int) -> None:
    """Refuse to go on with parameters that the last update made nan or inf: its loss was still finite.

    Args:
        job: What is trained.
        net: The training net.
        iteration: Updates done.

    Raises:
        RunError: A parameter is not finite.
    """
    key = parameter_not_finite(net, job.phases["train"].graph)
    if key is not None:
        raise RunError(
            f"{job.name}: the update of iteration {iteration - 1} left nan or inf in the parameter "
            f"{key!r}; nothing is written from here on. Take a lower learning rate, or clip gradients, and "
            "resume from an earlier checkpoint"
        )


def require_finite_loss(job: Job, iteration: int, phase: str, loss: float) -> None:
    """Fail a run whose last loss is nan or inf, which no further iteration would find.

    Args:
        job: What is trained.
        iteration: Updates done.
        phase: What the loss is of.
        loss: The loss.

    Raises:
        RunError: It is not finite.
    """
    if not math.isfinite(loss):
        raise RunError(
            f"{job.name}: after iteration {iteration} the loss of {phase!r} is {loss}. Take a lower "
            "learning rate, or clip gradients, and resume from an earlier checkpoint"
        )
