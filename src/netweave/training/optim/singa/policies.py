"""SINGA's learning-rate policies (``LRGenerator`` in src/utils/updater.cc at 0.3.0)."""

from __future__ import annotations

from dataclasses import dataclass, field

from netweave.training.optim.policy import Policy, policy
from netweave.training.settings import require


@policy("singa.fixed")
@dataclass(slots=True, kw_only=True)
class Fixed(Policy):
    """base_lr."""

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        return self.base_rate


@policy("singa.step")
@dataclass(slots=True, kw_only=True)
class Step(Policy):
    """base_lr gamma^floor(step / change_freq)."""

    gamma: float
    change_freq: int

    def __post_init__(self) -> None:
        _require_interval(self.change_freq)

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        return self.base_rate * self.gamma ** (iteration // self.change_freq)


@policy("singa.linear")
@dataclass(slots=True, kw_only=True)
class Linear(Policy):
    """(1 - r) base_lr + r final_lr with r = step / change_freq; SINGA goes on past final_lr."""

    final_lr: float
    change_freq: int

    def __post_init__(self) -> None:
        _require_interval(self.change_freq)

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        part = iteration / self.change_freq
        return (1.0 - part) * self.base_rate + part * self.final_lr


@policy("singa.exponential")
@dataclass(slots=True, kw_only=True)
class Exponential(Policy):
    """base_lr 2^(-step / change_freq)."""

    change_freq: int

    def __post_init__(self) -> None:
        _require_interval(self.change_freq)

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        power: float = 2.0 ** (-iteration / self.change_freq)
        return self.base_rate * power


@policy("singa.inverse")
@dataclass(slots=True, kw_only=True)
class Inverse(Policy):
    """base_lr (1 + gamma step)^(-pow)."""

    gamma: float
    pow: float

    def __post_init__(self) -> None:
        require(self.gamma >= 0, f"gamma is {self.gamma:g}, expected at least 0")

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        power: float = (1.0 + self.gamma * iteration) ** -self.pow
        return self.base_rate * power


@policy("singa.inverse_t")
@dataclass(slots=True, kw_only=True)
class InverseT(Policy):
    """base_lr / (1 + step / final_lr)."""

    final_lr: float

    def __post_init__(self) -> None:
        require(self.final_lr > 0, f"final_lr is {self.final_lr:g}, expected more than 0")

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        return self.base_rate / (1.0 + iteration / self.final_lr)


@policy("singa.fixed_step")
@dataclass(slots=True, kw_only=True)
class FixedStep(Policy):
    """step_lr[i], where i grows by at most one in an iteration; base_lr is not used.

    Attributes:
        step: The iteration from which on rate i holds; SINGA begins with rate 0 whatever the first one is.
        step_lr: The rates.
        current_step: i.
    """

    step: list[int]
    step_lr: list[float]
    current_step: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        equal = len(self.step) == len(self.step_lr) > 0
        require(equal, f"{len(self.step)} step for {len(self.step_lr)} step_lr, expected one for each")

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        following = self.current_step + 1
        if following < len(self.step) and iteration >= self.step[following]:
            self.current_step = following
        return self.step_lr[self.current_step]


def _require_interval(change_freq: int) -> None:
    require(change_freq > 0, f"change_freq is {change_freq}, expected more than 0")
