"""First values of a variable or a net, as MXNet writes them down."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, init=False)
class Initializer:
    """A rule for first values; ``training.optim.mxnet.initializers`` has the rules and their settings.

    >>> Initializer("xavier", factor_type="in", magnitude=2.34).text
    '["xavier", {"factor_type": "in", "magnitude": 2.34}]'

    Attributes:
        kind: MXNet's name for it in small letters: ``uniform``, ``normal``, ``xavier``, ``constant``, ...
        settings: Its own by MXNet's names.
    """

    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __init__(self, kind: str, **settings: Any) -> None:
        object.__setattr__(self, "kind", kind.lower())
        object.__setattr__(self, "settings", settings)

    @property
    def text(self) -> str:
        """The rule as symbol files have it."""
        return json.dumps([self.kind, dict(self.settings)])

    @property
    def filler(self) -> dict[str, Any]:
        """The rule as a ``Parameter`` has it."""
        return {"type": self.kind, **self.settings}
