"""A short form of ``benchmarks.hostile.visitors``: few visitors and kills, all attackers; no speeds."""

from __future__ import annotations

import argparse
import sys

import pytest

from benchmarks.hostile.visitors.__main__ import run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.multi,
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes by /proc"),
]


def test_honest_visitors_lose_nothing_beside_attackers_and_kills():
    options = argparse.Namespace(visitors=4, rounds=1, within=2.0, seconds=15.0, kills=6)
    found = run(options)
    for name, phase in found["phases"].items():
        assert phase["failures"] == [], name
        assert phase["finished"] == phase["comparisons"] >= 4, name
    attacks = found["phases"]["attacked"]["others"]
    assert len(attacks) >= 10
    assert all(attacks.values())
    crowd = found["phases"]["crowded"]["others"]
    assert len(crowd) == 3
    assert all(crowd.values())
    assert sum(found["phases"]["killed"]["kills"].values()) == 6
    assert found["quota"]["kept"] == 10
    assert found["quota"]["bytes"] == found["quota"]["quota"]
    assert found["left"] == dict.fromkeys(found["left"], 0)
