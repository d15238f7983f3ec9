"""What an update rule is: the arithmetic of one step, on lists of tensors, and the table of rules.

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
from netweave.job.make import from_settings

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
        base_rate: Learning rate, before multipliers.
        rate: Learning rate times multiplier.
        decay: Weight decay times multiplier.
        step: Number of this update, from 1.
        scale: Factor to be put on the gradients first.
        memory: Numbers that the rule keeps for all parameters; it starts empty.
        key: Name of the parameter; empty where the block holds parts of several.
        generator: Where a rule draws from.
    """

    weights: Tensors
    gradients: Tensors
    state: dict[str, Tensors]
    base_rate: float
    rate: float
    decay: float
    step: int
    scale: float
    memory: dict[str, float]
    generator: torch.Generator
    key: str = ""

    def scaled(self) -> Tensors:
        """Return the gradients times ``scale``; to be read only."""
        return self.gradients if self.scale == 1.0 else torch._foreach_mul(self.gradients, self.scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(ABC):
    """The settings and the arithmetic of one way to update; the settings have the source's names."""

    names: ClassVar[tuple[str, ...]] = ()
    """Names of the arrays that are kept for each parameter, in the order in which the source stores them."""

    by_parameter: ClassVar[bool] = False
    """Whether a block must be one whole parameter, all of them in order: norms, running products."""

    @property
    @abstractmethod
    def decay(self) -> float:
        """Weight decay, before multipliers."""

    @abstractmethod
    def update(self, block: Block) -> None:
        """Change weights and state by one step."""

    def scale(self, gradients: Tensors, accumulated: int) -> float:
        """Return the factor that all gradients are multiplied by first.

        Args:
            gradients: Of all parameters.
            accumulated: Number of batches whose gradients they are the sum of.
        """
        return 1.0 / accumulated

    def first(self, name: str, weight: torch.Tensor) -> torch.Tensor:
        """Return the first value of a kept array: zeros of the weight's shape, type and layout."""
        return torch.zeros_like(weight)


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
        raise UsageError(f"no update rule {kind!r}; there are: {', '.join(sorted(RULES))}")
    return from_settings(RULES[kind], f"update rule {kind!r}", settings)
