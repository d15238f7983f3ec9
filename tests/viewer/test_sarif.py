"""Comparisons as SARIF: results at the lines of the port, in the form of the published schema."""

from __future__ import annotations

import json

import pytest

from netweave.comparison import Comparison, Evidence, Finding, Group, NetRecord, Status, Verdict
from netweave.graph import LayerTable
from netweave.graph.layers import Layer, Origin
from netweave.viewer import comparison_sarif, summary_lines

POOL = Finding(
    mismatch="padding + pool-rounding",
    cause="A rounds up, B down",
    fix="ceil_mode=True",
    place_a="a.prototxt:13",
    place_b="folder/b net.py:17",
    layer_a="pool",
    layer_b="down",
    error=float("inf"),
    error_fixed=0.0,
)
LATENT = Finding("bn-eps", "eps is 1e-05 against 0.001", place_b="b.py:3", layer_b="bn", latent=True)


def compared(*groups, verdict=Verdict.DIFFERENT):
    layers = LayerTable([Layer("conv", "conv", "Conv", origin=Origin("b.py", 5))])
    a = NetRecord("a", "Caffe", ("a.prototxt",), LayerTable())
    b = NetRecord("b", "PyTorch", ("b.py",), layers)
    return Comparison(a, b, verdict, f"{verdict.value}: so it is", groups=groups)


def group(status, finding=None, keys=("conv",)):
    return Group((), (), ("c",), keys, Evidence.STRUCTURE, status, finding=finding)


ALL = compared(
    group(Status.DIFFERENT, POOL),
    group(Status.LATENT, LATENT),
    group(Status.DIFFERENT),
    group(Status.DIFFERENT, keys=("none",)),
)
UNDECIDED = compared(verdict=Verdict.UNDECIDED)


def log_of(comparison):
    return json.loads(json.dumps(comparison_sarif(comparison, version="1.2.3")).replace("Infinity", '"inf"'))


def test_each_difference_is_a_result_at_the_line_of_the_port(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (run,) = log_of(ALL)["runs"]
    pool, latent, unexplained, placeless = run["results"]
    place = pool["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "folder/b%20net.py"
    assert place["region"]["startLine"] == 17
    assert pool["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 13
    assert pool["message"]["text"] == "pool / down: A rounds up, B down. Fix: ceil_mode=True"
    assert [result["level"] for result in run["results"]] == ["error", "note", "error", "error"]
    assert unexplained["locations"][0]["physicalLocation"]["region"]["startLine"] == 5
    assert placeless["locations"][0]["physicalLocation"] == {"artifactLocation": {"uri": "b.py"}}
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} >= {r["ruleId"] for r in run["results"]}
    assert run["invocations"][0]["exitCode"] == 1
    assert latent["ruleId"] == "bn-eps"


def test_what_is_not_decidable_is_a_warning():
    (run,) = log_of(UNDECIDED)["runs"]
    assert [(r["ruleId"], r["level"]) for r in run["results"]] == [("not-decidable", "warning")]
    assert not log_of(compared(verdict=Verdict.IDENTICAL))["runs"][0]["results"]


@pytest.mark.oracle
@pytest.mark.parametrize("comparison", [ALL, UNDECIDED, compared(verdict=Verdict.IDENTICAL)])
def test_the_log_has_the_form_of_the_published_schema(comparison):
    """The classes of pydantic-sarif are made of the schema."""
    model = pytest.importorskip("pydantic_sarif.model")
    model.StaticAnalysisResultsFormatSarifVersion210JsonSchema.model_validate(log_of(comparison))


def test_a_summary_lists_further_differences_and_stays_within_twelve_lines():
    many = compared(group(Status.DIFFERENT, POOL), *(group(Status.DIFFERENT) for _ in range(40)))
    lines = summary_lines(many, command="netweave compare " + "x" * 500)
    assert "also wrong: conv, conv, conv and 37 more" in lines
    assert len(lines) <= 12
    assert max(map(len, lines)) <= 300


def test_a_difference_without_explanation_says_so_in_a_summary():
    lines = summary_lines(compared(group(Status.DIFFERENT)))
    assert lines[1] == "first wrong place: b.py:5: conv, A: c"
    assert lines[2] == "cause: unknown; none of the known mismatches explains it"
