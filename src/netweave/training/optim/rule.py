"""The base of update rules, the arithmetic of one step on lists of tensors, and their table.

A rule is written once for every device: it acts on lists, so that a GPU gets few launches and a CPU gets
blocks that stay in its cache (see ``updater``). To add one: a frozen dataclass of its settings under
``@rule("source.name")`` with ``update``, its formula cited; a NumPy transcription in the tests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import torch

from netweave.errors import UsageError
from netweave.training.settings import from_settings, of_source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Tensors = list[torch.Tensor]


@dataclass(slots=True)
class Block:
    """Some elements of some parameters that share their multipliers.

    Attributes:
        weights: The elements; changed in place.
        gradients: Their gradients, to be read only.
        state: What the rule keeps for them, by name; changed in place.
        rate: Learning rate times multiplier.
        decay: Weight decay times multiplier.
        step: Number of this update, from 1.
        scale: Factor to be put on the gradients first.
        factors: What ``Rule.begin`` found out for this parameter, where ``by_parameter``.
        noise: Returns normal numbers for the elements; which ones depends on seed, step, parameter and
            element alone.
    """

    weights: Tensors
    gradients: Tensors
    state: dict[str, Tensors]
    rate: float
    decay: float
    step: int
    scale: float
    factors: tuple[float, ...] = ()
    noise: Callable[[], Tensors] | None = None

    def scaled(self) -> Tensors:
        """Return the gradients times ``scale``; to be read only."""
        return self.gradients if self.scale == 1.0 else torch._foreach_mul(self.gradients, self.scale)


@dataclass(frozen=True, slots=True)
class Multiplied:
    """The multipliers of a parameter, as a rule is told of them when an update begins.

    Attributes:
        key: The parameter's name.
        rate: Learning rate times multiplier.
        decay: Weight decay times multiplier.
        sums: What ``Rule.measure`` gave for all its elements, added up.
    """

    key: str
    rate: float
    decay: float
    sums: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Beginning:
    """Information about all parameters at the beginning of an update.

    Attributes:
        step: Number of this update, from 1.
        base_rate: Learning rate, before multipliers.
        accumulated: Number of batches whose gradients the gradients are the sum of.
        parameters: The trained parameters, in the order of the layout.
        memory: Numbers that the rule keeps from update to update; it starts empty.
    """

    step: int
    base_rate: float
    accumulated: int
    parameters: tuple[Multiplied, ...]
    memory: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(ABC):
    """The settings and the arithmetic of one way to update; the settings have the source's names.

    An update has two parts. ``begin`` is called once, with sums over all gradients where the rule needs
    them; ``update`` changes elements, in any order, on whoever holds them.
    """

    names: ClassVar[tuple[str, ...]] = ()
    """Names of the arrays that are kept for each parameter, in the order in which the source stores them."""

    by_parameter: ClassVar[bool] = False
    """Whether a block holds elements of one parameter only, as ``factors`` differ between them."""

    whole_parameters: ClassVar[bool] = False
    """Whether a block must be one whole parameter, so that no slice cuts one."""

    num_sums: ClassVar[int] = 0
    """How many sums ``measure`` gives."""

    @property
    @abstractmethod
    def decay(self) -> float:
        """Weight decay, before multipliers."""

    @property
    def measures(self) -> bool:
        """True if an update can only begin when all gradients are there."""
        return self.num_sums > 0

    @property
    def updates_before(self) -> int:
        """Updates that count as done before the first one, for the rule and for the learning rate."""
        return 0

    @property
    def in_one_pass(self) -> bool:
        """True if an update goes over the memory of a block once, so that it need not fit into the cache."""
        return False

    def measure(self, block: Block) -> torch.Tensor:
        """Return sums over the elements of a block, ``num_sums`` of them in float64.

        ``block.scale`` is one over the batches accumulated.
        """
        raise NotImplementedError

    def scale(self, beginning: Beginning) -> float:
        """Return the factor that all gradients are multiplied by first."""
        return 1.0 / beginning.accumulated

    def begin(self, beginning: Beginning) -> Mapping[str, tuple[float, ...]]:
        """Return the factors of each parameter, and remember what the next update needs."""
        return {}

    @abstractmethod
    def update(self, block: Block) -> None:
        """Change weights and state by one step."""

    def first(self, name: str, weight: torch.Tensor) -> torch.Tensor:
        """Return the first value of a kept array: zeros of the weight's shape, type and layout."""
        return torch.zeros_like(weight)


def sum_of_squares(tensors: Tensors) -> torch.Tensor:
    """Return the sum of the squares of all elements, in float64."""
    return torch.stack(torch._foreach_norm(tensors)).double().square().sum()


RULES: dict[str, type[Rule]] = {}
"""The rules by kind, as a Job names them."""

R = TypeVar("R", bound=type[Rule])


def rule(kind: str) -> Callable[[R], R]:
    """Enter a rule in the table."""

    def enter(made: R) -> R:
        RULES[kind] = made
        return made

    return enter


def make_rule(kind: str, settings: Mapping[str, Any]) -> Rule:
    """Return a rule with its settings.

    Raises:
        UsageError: There is no such rule, it lacks a setting, does not have one, or one is out of range.
    """
    if kind not in RULES:
        known = ", ".join(of_source(kind, RULES))
        raise UsageError(f"unknown update rule {kind!r}; expected one of {known}")
    return from_settings(RULES[kind], f"update rule {kind!r}", settings)
