"""What a run has come to, in the layouts of the Job's source: what formats write of it, and read back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np

    from netweave.graph import Graph

    Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class RunState:
    """The arrays of a run, and where it is.

    Attributes:
        graph: The training net.
        iteration: Updates done.
        samples: Records that these updates looked at; one that came up again counts again.
        parameters: All stored arrays, by key.
        kept: What the update rule keeps, by its name for it and by key, in the source's order.
        policy: What the learning-rate policy remembers.
        gradients: The last gradients by key; None where nobody wants them.
    """

    graph: Graph
    iteration: int
    samples: int
    parameters: Arrays = field(repr=False)
    kept: Mapping[str, Arrays] = field(repr=False)
    policy: Mapping[str, float] = field(default_factory=dict)
    gradients: Arrays | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class FoundState:
    """A solver's state that a file of the source's own has.

    Attributes:
        iteration: Updates done.
        weights: The file of weights that goes with it.
        kept: As in ``RunState``.
        policy: As in ``RunState``.
    """

    iteration: int
    weights: Path
    kept: Mapping[str, Arrays] = field(repr=False)
    policy: Mapping[str, float] = field(default_factory=dict)
