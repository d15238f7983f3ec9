"""The curves of a run: thinned evenly, and the same however often the run is stopped."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

from netweave.training import history
from netweave.training.events import Evaluated, Saved
from netweave.training.history import Curve, History


def restored(kind, kept):
    made = kind()
    made.restore(json.loads(json.dumps(kept.state())))
    return made


@given(length=st.integers(0, 400), most=st.integers(2, 50), stops=st.sets(st.integers(0, 400)))
def test_a_stopped_curve_is_that_of_one_run(length, most, stops):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history, "MOST_POINTS", most)
        whole = stopped = Curve()
        for iteration in range(length):
            if iteration in stops:
                stopped = restored(Curve, stopped)
            for curve in {id(whole): whole, id(stopped): stopped}.values():
                curve.add(iteration, iteration / 7)
    points = whole.points()
    assert stopped.points() == points
    assert len(points) <= most + 1
    assert set(points) <= {(iteration, iteration / 7) for iteration in range(length)}
    if length:
        assert points[0][0] == 0
        assert points[-1][0] == length - 1
    steps = {later - sooner for (sooner, _), (later, _) in pairwise(points[:-1])}
    assert len(steps) <= 1  # evenly, but for the last


def test_what_becomes_a_curve():
    kept = History()
    kept.step(1, 0.5, 0.1)
    kept.show(Saved(1, ("file",)))
    scores = tuple(map(float, range(history.MOST_ELEMENTS + 1)))
    kept.show(Evaluated(1, "test", {"loss": (2.0,), "two": (3.0, 4.0), "scores": scores}, {"loss": 1.0}))
    kept = restored(History, kept)
    assert kept.losses == {"train/objective", "test/loss"}
    assert {name: curve.points() for name, curve in kept.curves.items()} == {
        "train/objective": [(1, 0.5)],
        "train/rate": [(1, 0.1)],
        "test/loss": [(1, 2.0)],
        "test/two/0": [(1, 3.0)],
        "test/two/1": [(1, 4.0)],
    }
