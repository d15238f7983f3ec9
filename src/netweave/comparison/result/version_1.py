"""Saved comparisons of version 1, in the names of today; goes with the release after the next."""

from __future__ import annotations

from typing import Any

from netweave.comparison.result.verdicts import Verdict

Json = dict[str, Any]

BY_STRUCTURE = "by structure, with weights copied from one to the other: "
"""So began the sentence of equal nets without weights before their verdict had a name of its own."""

VALUES = {
    "proven by values": "values agree",
    "carries an earlier difference": "propagates an earlier difference",
}
"""Values of ``Evidence`` and ``Status`` that have other words since."""


def of_version_1(saved: Json) -> Json:
    """Return a saved comparison of version 1 as one of today."""
    groups = [_group(group) for group in saved["groups"]]
    mappings = {name: [_mapping(mapping) for mapping in saved[name]] for name in ("inputs", "outputs")}
    return {**saved, **mappings, "groups": groups, **_verdict(saved)}


def _verdict(saved: Json) -> Json:
    equal = {Verdict.IDENTICAL, Verdict.EQUAL}
    if Verdict.of(saved["verdict"]) not in equal or not saved["sentence"].startswith(BY_STRUCTURE):
        return {}
    reason = saved["sentence"].removeprefix(BY_STRUCTURE).removeprefix("identical: ")
    return {"verdict": Verdict.STRUCTURE.value, "sentence": f"{Verdict.STRUCTURE.value}: {reason}"}


def _group(group: Json) -> Json:
    renamed = {"graft_error": "isolated_error"}
    content = {renamed.get(name, name): value for name, value in group.items()}
    return {
        **content,
        "evidence": VALUES.get(group["evidence"], group["evidence"]),
        "status": VALUES.get(group["status"], group["status"]),
        "mapping": _mapping(group["mapping"]) if group["mapping"] else None,
        "finding": _finding(group["finding"]) if group["finding"] else None,
    }


def _finding(finding: Json) -> Json:
    return {"mismatch" if name == "trap" else name: value for name, value in finding.items()}


def _mapping(mapping: Json) -> Json:
    """Return a mapping whose sizes begin with the batch, which is open."""
    shape = mapping["shape"]
    return {**mapping, "shape": None if shape is None else [-1, *shape]}
