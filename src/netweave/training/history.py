"""The curves of a run from its beginning, however often it was stopped: checkpoints carry them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from netweave.training.events import Evaluated, Event

MOST_POINTS = 2000
"""A curve has at most so many points, more than a picture has columns; a longer one loses every other."""

MOST_ELEMENTS = 16
"""Outputs with more elements than this, such as the scores of all classes, are no curves."""


class Curve:
    """Points of a curve, evenly thinned out; which ones depends on their number only."""

    def __init__(self) -> None:
        self._points: list[tuple[int, float]] = []
        self._last: tuple[int, float] | None = None
        self._stride = 1
        self._count = 0

    def add(self, iteration: int, value: float) -> None:
        """Take a point in."""
        self._last = (iteration, value)
        if self._count % self._stride == 0:
            self._points.append(self._last)
        self._count += 1
        if len(self._points) > MOST_POINTS:
            self._points = self._points[::2]
            self._stride *= 2

    def points(self) -> list[tuple[int, float]]:
        """Return the points that are kept, and the last."""
        if self._last is None or self._points[-1] == self._last:
            return list(self._points)
        return [*self._points, self._last]

    def state(self) -> dict[str, Any]:
        """Return a copy of what a checkpoint keeps, as JSON values."""
        points = list(self._points)
        return {"points": points, "last": self._last, "stride": self._stride, "count": self._count}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was called."""
        self._points = [(iteration, value) for iteration, value in state["points"]]
        self._last = None if state["last"] is None else (state["last"][0], state["last"][1])
        self._stride, self._count = state["stride"], state["count"]


class History:
    """The curves of a run by name: objective and rate of its updates, and the outputs of its tests.

    Attributes:
        curves: The curves.
        losses: Which of them are losses.
    """

    def __init__(self) -> None:
        self.curves: dict[str, Curve] = {}
        self.losses: set[str] = {"train/objective"}

    def show(self, event: Event) -> None:
        """Take the outputs of a test in; other events have none that are curves."""
        if not isinstance(event, Evaluated):
            return
        few = {name: values for name, values in event.outputs.items() if len(values) <= MOST_ELEMENTS}
        weights = dict.fromkeys(event.weights, (0.0,))
        self.losses.update(name for name, _ in by_phase(event.phase, weights))
        for name, value in by_phase(event.phase, few):
            self._add(name, event.iteration, value)

    def step(self, iteration: int, loss: float, rate: float) -> None:
        """Take the objective and the rate of an update in; ``iteration`` as in ``Updated``."""
        self._add("train/objective", iteration, loss)
        self._add("train/rate", iteration, rate)

    def state(self) -> dict[str, Any]:
        """Return a copy of what a checkpoint keeps, as JSON values."""
        curves = {name: curve.state() for name, curve in self.curves.items()}
        return {"curves": curves, "losses": sorted(self.losses)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was called."""
        self.losses = set(state["losses"])
        self.curves = {}
        for name, kept in state["curves"].items():
            self.curves[name] = Curve()
            self.curves[name].restore(kept)

    def _add(self, name: str, iteration: int, value: float) -> None:
        self.curves.setdefault(name, Curve()).add(iteration, value)


def by_phase(phase: str, outputs: Mapping[str, tuple[float, ...]]) -> Iterator[tuple[str, float]]:
    """Yield outputs by phase and name; several elements of one are numbered."""
    for name, values in outputs.items():
        for index, value in enumerate(values):
            yield f"{phase}/{name}" + (f"/{index}" if len(values) > 1 else ""), value
