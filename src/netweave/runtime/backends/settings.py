"""Settings of backends: one table, for nets that run once and nets that run many times."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from netweave.errors import UsageError
from netweave.runtime.engine.threaded import num_cores

TORCH = "torch"
"""The backend that trains, too; its package and the extra that installs it have the same name."""

BACKENDS = ("onnxruntime", "openvino", "opencv", TORCH)
"""Names of the backends; each is a module or package of ``netweave.runtime.backends``."""

AUTO = "auto"
"""In the place of a name: the fastest backend, chosen by trying (``selection``)."""

PRECISIONS = ("f32", "bf16", "f16")
"""What convolutions and matrix products are computed in; inputs and outputs keep their types."""


class Purpose(enum.Enum):
    """The purpose for which a Graph is prepared."""

    TAPPING = "tapping"
    """One run or two, in which any value may be read: no optimisation, so that bits do not depend on taps."""

    INFERENCE = "inference"
    """Many runs for the outputs alone: everything that the backend can do ahead is done ahead."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Settings that every backend knows.

    Attributes:
        purpose: What the graph is made ready for.
        precision: One of ``PRECISIONS``.
        threads: Threads that one run computes with; 0 leaves it to the backend.
        usual_sizes: Shapes of the inputs in most runs, by name: a backend may be faster at them, at no cost
            to others but memory.

    Raises:
        UsageError: There is no such precision, or the number of threads is not one.
    """

    purpose: Purpose = Purpose.TAPPING
    precision: str = "f32"
    threads: int = 0
    usual_sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise UsageError(f"unknown precision {self.precision!r}; expected one of {', '.join(PRECISIONS)}")
        if self.threads < 0:
            raise UsageError(f"threads is {self.threads!r}, expected a whole number >= 1")

    @property
    def num_threads(self) -> int:
        """Threads that one run computes with: those asked for, else one for each core of the process."""
        return self.threads or num_cores()


TAPPING = RunSettings()
"""What comparing runs nets with."""
