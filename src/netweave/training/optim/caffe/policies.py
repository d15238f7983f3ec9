"""Caffe's learning-rate policies (SGDSolver::GetLearningRate at 1.0; ``plateau`` of the SSD fork)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from netweave.training.optim.policy import Policy, policy
from netweave.training.settings import require


@policy("caffe.fixed")
@dataclass(slots=True, kw_only=True)
class Fixed(Policy):
    """base_lr."""

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        return self.base_rate


@policy("caffe.step")
@dataclass(slots=True, kw_only=True)
class Step(Policy):
    """base_lr gamma^floor(it / stepsize)."""

    gamma: float
    stepsize: int

    def __post_init__(self) -> None:
        require(self.stepsize > 0, f"stepsize is {self.stepsize}, expected more than 0")
        require(self.gamma >= 0, f"gamma is {self.gamma}, expected at least 0")

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        return self.base_rate * self.gamma ** (iteration // self.stepsize)


@policy("caffe.exp")
@dataclass(slots=True, kw_only=True)
class Exp(Policy):
    """base_lr gamma^it."""

    gamma: float

    def __post_init__(self) -> None:
        require(self.gamma >= 0, f"gamma is {self.gamma}, expected at least 0")

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        return self.base_rate * self.gamma**iteration


@policy("caffe.inv")
@dataclass(slots=True, kw_only=True)
class Inv(Policy):
    """base_lr (1 + gamma it)^(-power)."""

    gamma: float
    power: float

    def __post_init__(self) -> None:
        require(self.gamma >= 0, f"gamma is {self.gamma}, expected at least 0")

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        return self.base_rate * math.pow(1.0 + self.gamma * iteration, -self.power)


@policy("caffe.multistep")
@dataclass(slots=True, kw_only=True)
class MultiStep(Policy):
    """base_lr gamma^current_step; current_step grows by at most one in an iteration.

    Attributes:
        gamma: Factor of each step.
        stepvalue: The iteration from which on step i is due.
        current_step: Steps taken; it is kept in Caffe's solverstate.
    """

    gamma: float
    stepvalue: list[int]
    current_step: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        require(self.gamma >= 0, f"gamma is {self.gamma}, expected at least 0")

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        if self.current_step < len(self.stepvalue) and iteration >= self.stepvalue[self.current_step]:
            self.current_step += 1
        return self.base_rate * self.gamma**self.current_step


@policy("caffe.poly")
@dataclass(slots=True, kw_only=True)
class Poly(Policy):
    """base_lr (1 - it / max_iter)^power: zero at max_iter."""

    power: float
    max_iter: int

    def __post_init__(self) -> None:
        require(self.max_iter > 0, f"max_iter is {self.max_iter}, expected more than 0")

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        return self.base_rate * math.pow(1.0 - iteration / self.max_iter, self.power)


@policy("caffe.sigmoid")
@dataclass(slots=True, kw_only=True)
class Sigmoid(Policy):
    """base_lr / (1 + exp(-gamma (it - stepsize)))."""

    gamma: float
    stepsize: int

    def __post_init__(self) -> None:
        # with gamma < 0 the rate falls at the step; Caffe checks the sign since 2017, older solvers have it
        require(self.stepsize > 0, f"stepsize is {self.stepsize}, expected more than 0")

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        power = -self.gamma * (iteration - self.stepsize)
        # beyond the range of exp the rate is as near to zero as Caffe's infinity makes it
        return self.base_rate / (1.0 + math.exp(power)) if power < 700.0 else 0.0


@policy("caffe.plateau")
@dataclass(slots=True, kw_only=True)
class Plateau(Policy):
    """base_lr gamma^current_step; a step is due when the loss has found no new minimum for long enough.

    Attributes:
        gamma: Factor of each step.
        plateau_winsize: So many iterations without a new minimum make step i due.
        current_step: Steps taken.
        minimum_loss: Smallest smoothed loss so far.
        iter_last_event: Iteration of the last new minimum or step.
    """

    gamma: float
    plateau_winsize: list[int]
    current_step: int = field(default=0, init=False)
    minimum_loss: float = field(default=1e38, init=False)
    iter_last_event: int = field(default=0, init=False)

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        if loss is not None and loss < self.minimum_loss:
            self.minimum_loss, self.iter_last_event = loss, iteration
        if (
            self.current_step < len(self.plateau_winsize)
            and iteration >= self.iter_last_event + self.plateau_winsize[self.current_step]
        ):
            self.current_step += 1
            self.iter_last_event = iteration
        return self.base_rate * self.gamma**self.current_step
