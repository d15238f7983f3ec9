"""The base of learning-rate policies, and their table.

To add one: a dataclass of its settings under ``@policy("source.name")`` with ``rate``.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from netweave.errors import UsageError
from netweave.training.settings import from_settings, of_source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from netweave import job


@dataclass(slots=True, kw_only=True)
class Policy(ABC):
    """A learning rate that changes; asked once for each iteration, in order.

    Attributes:
        base_rate: The rate that it starts from.
    """

    base_rate: float

    @abstractmethod
    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration.

        Args:
            iteration: Number of updates done before, from 0.
            loss: The smoothed loss before this update, for policies that look at it.
        """

    def state(self) -> dict[str, float]:
        """Return what the policy remembers, for checkpoints."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if not field.init}

    def restore(self, state: Mapping[str, float]) -> None:
        """Remember what ``state`` returned.

        Raises:
            UsageError: The state is of another policy.
        """
        if unknown := sorted(set(state) - set(self.state())):
            raise UsageError(
                f"the learning-rate policy of the checkpoint remembers {unknown[0]!r:.60}, that of the Job "
                "does not; resume with the solver that the checkpoint was written with"
            )
        for name, value in state.items():
            setattr(self, name, value)


POLICIES: dict[str, type[Policy]] = {}
"""The policies by kind, as a Job names them."""

P = TypeVar("P", bound=type[Policy])


def policy(kind: str) -> Callable[[P], P]:
    """Enter a policy in the table."""

    def enter(made: P) -> P:
        POLICIES[kind] = made
        return made

    return enter


def make_policy(wanted: job.Policy) -> Policy:
    """Return the policy that a Job asks for.

    Raises:
        UsageError: There is no such policy, it lacks a setting, does not have one, or one is out of range.
    """
    if wanted.kind not in POLICIES:
        known = ", ".join(of_source(wanted.kind, POLICIES))
        raise UsageError(f"unknown learning-rate policy {wanted.kind!r}; expected one of {known}")
    settings: dict[str, Any] = {"base_rate": wanted.base_rate, **wanted.settings}
    return from_settings(POLICIES[wanted.kind], f"learning-rate policy {wanted.kind!r}", settings)
