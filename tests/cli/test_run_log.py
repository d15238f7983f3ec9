"""The lines of a log: SINGA's form, and that names of metrics are those of its layers."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("torch")

from netweave.cli.run_log import SingaLog, log_of
from netweave.training import Evaluated, Norms, NormsSeen, Note, Saved, Shown, Stopped

QUOTED = "E0817 07:15:24.462602 34073 trainer.cc:373] Test step-0, loss : 2.341021, accuracy : 0.109100"
"""A line that SINGA's documents quote."""


def only_line(event) -> str:
    (line,) = log_of("singa").lines(event)
    return line


def test_a_pattern_for_singas_logs_reads_these():
    pattern = re.compile(
        r"[EI]\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ \S+\] (\w+) step-(\d+), loss : (\S+), accuracy : (\S+)$"
    )
    outputs = {"loss": (2.341021,), "loss/accuracy": (0.1091,)}
    line = only_line(Evaluated(0, "test", outputs, {"loss": 1.0}))
    assert pattern.match(line).groups() == pattern.match(QUOTED).groups()
    line = only_line(Shown(10, 2.5, 0.1, outputs, {"loss": 1.0}, None))
    assert pattern.match(line).groups() == ("Train", "10", "2.341021", "0.109100")
    assert "] Validation step-5, " in only_line(Evaluated(5, "validate", outputs, {}))


def test_copies_of_an_unrolled_layer_are_summed():
    outputs = {f"{t}#loss{part}": (float(t),) for part in ("", "/accuracy") for t in range(4)}
    assert only_line(Evaluated(3, "test", outputs, {})).endswith(
        "Test step-3, loss : 6.000000, accuracy : 6.000000"
    )


def test_metrics_of_one_name_keep_that_of_their_layer():
    outputs = {"a/accuracy": (0.5,), "b/accuracy": (0.25,), "scores": (1.0, 2.0)}
    assert only_line(Evaluated(3, "test", outputs, {})).endswith(
        "step-3, a/accuracy : 0.500000, b/accuracy : 0.250000"
    )


def test_other_events():
    assert [line.partition("] ")[2] for line in SingaLog().lines(Saved(3, ("a", "b")))] == [
        "checkpoint to a",
        "checkpoint to b",
    ]
    assert only_line(Stopped(7, 7)).endswith("] Iteration 7, stopped; --resume goes on from here")
    assert only_line(Stopped(7, 5)).endswith("] Iteration 7, stopped; --resume goes on from iteration 5")
    assert only_line(Stopped(7, None)).endswith("] Iteration 7, stopped; no checkpoint was written")
    assert only_line(Note("said")).endswith("] said")
    assert list(SingaLog().opening(4)) == ["Unique JOB_ID is 4"]
    assert list(log_of("caffe").opening(4)) == []


def test_norms_are_written_as_singa_01_does():
    layers = {"ip": Norms(1.5, 0.25, "ip"), "loss": Norms(2.0, None, "loss")}
    event = NormsSeen(0, layers, {"w": Norms(0.5, 0.125, "ip")})
    assert [line.partition("] ")[2] for line in SingaLog().lines(event)] == [
        "Layer         ip data norm1   1.500000000",
        "Layer       loss data norm1   2.000000000",
        "Layer         ip grad norm1   0.250000000",
        "param id  0, name          w, value norm1   0.500000000, grad norm1   0.125000000",
    ]
