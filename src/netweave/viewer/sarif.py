"""A comparison as SARIF 2.1.0, which code hosts show at the lines of the port."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from netweave.comparison import Comparison, Finding, Verdict
from netweave.viewer.summary import origin_of, place_of, wrong_groups

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

UNEXPLAINED = "unexplained"
"""The rule of a difference that no known mismatch explains."""

UNDECIDED = "not-decidable"
"""The rule of a comparison that shows neither equality nor a difference."""

RULES = {
    UNEXPLAINED: "The layers differ, and none of the known mismatches explains it",
    UNDECIDED: "The comparison shows neither that the nets are equal nor where they differ",
}

Json = dict[str, Any]


def comparison_sarif(comparison: Comparison, *, version: str) -> Json:
    """Return a comparison as a SARIF log: a result for each difference, at the line of the second net.

    Args:
        comparison: The comparison.
        version: Version of Netweave, which the log names as its tool.
    """
    results = [result for result in _results(comparison) if result]
    rules = sorted({result["ruleId"] for result in results})
    driver = {
        "name": "Netweave",
        "version": version,
        "rules": [
            {"id": rule, "shortDescription": {"text": RULES.get(rule, _words(rule))}} for rule in rules
        ],
    }
    coverage = comparison.coverage
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True, "exitCode": comparison.exit_status}],
        "results": results,
        "properties": {
            "verdict": comparison.verdict.value,
            "sentence": comparison.sentence,
            "notExercised": [str(each) for each in coverage.not_exercised] if coverage else [],
        },
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _results(comparison: Comparison) -> Iterator[Json]:
    for finding in comparison.findings:
        yield _of_finding(finding)
    for group in wrong_groups(comparison):
        if group.finding is None:
            layers = ", ".join(dict.fromkeys((*group.layers_a, *group.layers_b)))
            place = origin_of(comparison, group)
            text = f"{layers}: {RULES[UNEXPLAINED].lower()}"
            yield _result(UNEXPLAINED, "error", text, _locations(place, comparison))
    if comparison.verdict is Verdict.UNDECIDED:
        yield _result(UNDECIDED, "warning", comparison.sentence, _locations("", comparison))


def _of_finding(finding: Finding) -> Json:
    names = " / ".join(dict.fromkeys(name for name in (finding.layer_a, finding.layer_b) if name))
    text = f"{names}: {finding.cause}" if names else finding.cause
    text += f". Fix: {finding.fix}" if finding.fix else ""
    level = "note" if finding.latent else "error"
    place = finding.place_b or finding.place_a
    rule = (finding.mismatch or UNEXPLAINED).replace(" ", "")
    result = _result(rule, level, text, [_location(place)] if place else [])
    if finding.place_a and finding.place_b:
        original = _location(finding.place_a)
        result["relatedLocations"] = [{**original, "message": {"text": "the layer of the first net"}}]
    errors = {"error": finding.error, "errorFixed": finding.error_fixed}
    result["properties"] = {name: value for name, value in errors.items() if value is not None}
    return result


def _result(rule: str, level: str, text: str, locations: list[Json]) -> Json:
    return {"ruleId": rule, "level": level, "message": {"text": text}, "locations": locations}


def _locations(place: str, comparison: Comparison) -> list[Json]:
    """Return a place; without one the first file of the second net, so that the result is shown somewhere."""
    files = comparison.b.files
    return [_location(place or str(files[0]))] if place or files else []


def _location(place: str) -> Json:
    file, line = place_of(place)
    physical: Json = {"artifactLocation": {"uri": _uri(file)}}
    if line is not None:
        physical["region"] = {"startLine": line}
    return {"physicalLocation": physical}


def _uri(file: str) -> str:
    """Return a path as a URI: relative to the working directory, which is the repository where CI runs it."""
    path = Path(file).resolve()
    folder = Path.cwd()
    return quote(path.relative_to(folder).as_posix()) if path.is_relative_to(folder) else path.as_uri()


def _words(rule: str) -> str:
    """Return a key as words: ``pool-rounding`` is ``Pool rounding``."""
    return rule.replace("-", " ").capitalize()
