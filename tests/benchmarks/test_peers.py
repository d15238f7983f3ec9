"""The comparison with the peers: its pairs are what they are said to be, and its counts are right."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from benchmarks.faults import onnx_faults
from benchmarks.peers import pairs, run, tools


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    subject = next(onnx_faults.subjects(pairs.is_drawn))
    return list(pairs._rows(folder, subject))


def outputs(path, feeds):
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def test_equal_pairs_compute_the_same_on_the_inputs_that_the_peers_get(rows):
    equal = [row for row in rows if "layer" not in row]
    assert len(equal) >= 2
    for row in equal:
        first, second = onnx.load(row["a"]), onnx.load(row["b"])
        feeds = tools.feeds_of(first)
        made = outputs(row["a"], feeds), outputs(row["b"], tools.feeds_for(second, feeds))
        assert not any(tools.apart(x, y) for x, y in zip(*made, strict=True))


def test_faults_are_planted_where_they_are_said_to_be(rows):
    faults = [row for row in rows if "layer" in row]
    assert {tools.effect(row) for row in faults} & {"moves", "does not run"}
    for row in faults:
        names = {node.name for node in onnx.load(row["right"]).graph.node}
        assert row["layer"] in names or row["kind"]


def test_counts():
    rows = [
        {},
        {},
        {"layer": "x", "layer_a": "n1", "mismatches": ["pad"]},
        {"layer": "y", "layer_a": "y", "mismatches": []},
    ]
    says = [("equal", ""), ("different", ""), ("different", "n1"), ("equal", "")]
    answers = [
        {"effect": effect, "t": {"says": verdict, "where": where, "why": "pad + eps", "seconds": 1.0}}
        for effect, (verdict, where) in zip(("", "", "moves", "none"), says, strict=True)
    ]
    found = run.score(rows, answers, "t")
    assert (found["equal_pairs"], found["equal"], found["false_alarms"]) == (2, 1, 1)
    assert (found["faults"], found["found"], found["located"], found["explained"]) == (1, 1, 1, 1)


def test_arrays_apart():
    x = np.array([3.0, 4.0])
    assert not tools.apart(x, x + 1e-4)
    assert tools.apart(x, x + 1e-2)
    assert tools.apart(x, np.array([3.0, np.nan]))
    assert tools.apart(x, x[:1])
