"""The record of a training's first updates."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from netweave.errors import ReadError

MARK = "netweave.training"
"""Name of the array that holds what is no array, as JSON in UTF-8."""

KINDS = ("gradients", "prepared", "updated", "passed", "by-output")
"""Arrays of which there are several of one name."""

_KEY = re.compile(
    r"(?P<kind>weight|buffer|updated-buffer|output|output-gradient|(?:gradients|prepared|updated|passed|by-output)/\d+)/(?P<name>.+)",
    re.DOTALL,
)
"""Names of arrays: kind, number of the update, and name."""

Arrays = Mapping[str, np.ndarray]
Setting = float | int | bool | str | None


@dataclass(frozen=True, slots=True)
class Cut:
    """A function of the code that a gradient does not pass.

    Attributes:
        function: Its name (``detach``, ``no_grad``, ``round``).
        place: File and line that call it; empty if unknown.
    """

    function: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class Dropout:
    """A dropout of a net, which was the identity while the record was made.

    Attributes:
        rate: Probability of a zero.
        place: File and line that call it, or the name of the module.
    """

    rate: float
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecord:
    """The first updates of a training.

    Attributes:
        name: The net, for messages.
        weights: Arrays that learn or are frozen, before the first update, in the order of the net.
        gradients: Of each update, by weight; a weight that no gradient reached is absent.
        prepared: Of each update the gradients that the optimizer was given, where these were clipped.
        updated: The weights after each update; empty without an optimizer.
        buffers: Moving statistics before the first forward pass.
        updated_buffers: The same after it.
        momenta: The momentum of each buffer's layer, where the framework tells it.
        outputs: What the net returned in training mode, in order.
        losses: The loss of each update.
        batch: Number of samples.
        frozen: Names of weights that are not to learn.
        tied: Other names of a weight, by the first one.
        rules: Settings of the optimizer by weight; ``kind`` is its name.
        dropouts: In the order in which they are called.
        cuts: Functions that no gradient passes, in the order in which they are called.
        passed: Of each cut the gradients that there are where it lets them through.
        output_gradients: Gradients of the loss by the outputs, by the number of the output.
        by_output: Of each output, where there are several, the gradients that come from it alone.
    """

    name: str
    weights: Arrays
    gradients: Sequence[Arrays]
    prepared: Sequence[Arrays] = ()
    updated: Sequence[Arrays] = ()
    buffers: Arrays = field(default_factory=dict)
    updated_buffers: Arrays = field(default_factory=dict)
    momenta: Mapping[str, float] = field(default_factory=dict)
    outputs: Sequence[np.ndarray] = ()
    losses: Sequence[float] = ()
    batch: int = 0
    frozen: frozenset[str] = frozenset()
    tied: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rules: Mapping[str, Mapping[str, Setting]] = field(default_factory=dict)
    dropouts: Sequence[Dropout] = ()
    cuts: Sequence[Cut] = ()
    passed: Sequence[Arrays] = ()
    output_gradients: Arrays = field(default_factory=dict)
    by_output: Sequence[Arrays] = ()

    @property
    def is_double(self) -> bool:
        """True if it was computed in double precision, in which rounding hides nothing."""
        return all(x.dtype == np.float64 for x in self.weights.values())

    def given(self, update: int) -> Arrays:
        """Return the gradients that the optimizer was given in one update."""
        return self.prepared[update] if self.prepared else self.gradients[update]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return it as arrays by name, as they are saved."""
        arrays = {f"weight/{name}": x for name, x in self.weights.items()}
        arrays |= {f"buffer/{name}": x for name, x in self.buffers.items()}
        arrays |= {f"updated-buffer/{name}": x for name, x in self.updated_buffers.items()}
        arrays |= {f"output/{number}": x for number, x in enumerate(self.outputs)}
        arrays |= {f"output-gradient/{number}": x for number, x in self.output_gradients.items()}
        for kind in KINDS:
            for number, of_update in enumerate(getattr(self, kind.replace("-", "_"))):
                arrays |= {f"{kind}/{number}/{name}": x for name, x in of_update.items()}
        rest = {
            "name": self.name,
            "momenta": dict(self.momenta),
            "losses": list(self.losses),
            "batch": self.batch,
            "frozen": sorted(self.frozen),
            "tied": {name: list(names) for name, names in self.tied.items()},
            "rules": {name: dict(rule) for name, rule in self.rules.items()},
            "dropouts": [[each.rate, each.place] for each in self.dropouts],
            "cuts": [[each.function, each.place] for each in self.cuts],
        }
        return arrays | {MARK: np.frombuffer(json.dumps(rest).encode(), np.uint8)}

    @classmethod
    def of_parts(cls, name: str, arrays: Mapping[str, Arrays], rest: Mapping[str, Any]) -> TrainingRecord:
        """Return a record of arrays by kind and name, and the rest as JSON values."""
        several = {kind: _numbered(kind, arrays) for kind in KINDS}
        missing = max(1, len(several["updated"])) - len(several["gradients"])
        several["gradients"] += [{}] * missing  # a file has no arrays of an update without any gradient
        return cls(
            name=name,
            weights=arrays["weight"],
            gradients=several["gradients"],
            prepared=several["prepared"],
            updated=several["updated"],
            buffers=arrays.get("buffer", {}),
            updated_buffers=arrays.get("updated-buffer", {}),
            momenta=rest["momenta"],
            outputs=list(arrays.get("output", {}).values()),
            losses=rest["losses"],
            batch=int(rest["batch"]),
            frozen=frozenset(rest["frozen"]),
            tied=rest["tied"],
            rules=rest["rules"],
            dropouts=[Dropout(*each) for each in rest["dropouts"]],
            cuts=[Cut(*each) for each in rest["cuts"]],
            passed=several["passed"],
            output_gradients=arrays.get("output-gradient", {}),
            by_output=several["by-output"],
        )

    @classmethod
    def of_arrays(cls, arrays: Arrays, *, place: str) -> TrainingRecord:
        """Return what ``to_arrays`` returned.

        Raises:
            ReadError: It is no such record.
        """
        parts: dict[str, dict[str, np.ndarray]] = {}
        for name, x in arrays.items():
            match = _KEY.fullmatch(name)
            if match is not None:
                parts.setdefault(match["kind"], {})[match["name"]] = x
        try:
            rest: dict[str, Any] = json.loads(arrays[MARK].tobytes())
            return cls.of_parts(str(rest["name"]), parts, rest)
        except (KeyError, TypeError, ValueError) as error:
            raise ReadError(
                f"is no record of a training, as netweave.save_training writes it ({error!r})", place=place
            ) from error


def _numbered(kind: str, arrays: Mapping[str, Arrays]) -> list[Arrays]:
    """Return the arrays of a kind by number: those of an update, a cut or an output."""
    numbers = [int(name.rpartition("/")[2]) for name in arrays if name.rpartition("/")[0] == kind]
    return [arrays.get(f"{kind}/{number}", {}) for number in range(max(numbers, default=-1) + 1)]
