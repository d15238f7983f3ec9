"""Comparisons saved and opened again, and several nets at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import netweave
from netweave import comparison
from netweave.comparison import (
    Evidence,
    Status,
    Verdict,
    compare,
    open_comparison,
    save_comparison,
)
from netweave.comparison.result.version_1 import BY_STRUCTURE
from netweave.errors import ReadError
from tests.comparison.nets import Form, build, without


@pytest.mark.parametrize("form", [Form(), Form(slope=0.3), Form(swapped=True, prefix="p_")], ids=str)
def test_what_is_saved_is_opened(tmp_path, form):
    found = compare(build(), build(form))
    save_comparison(found, tmp_path / "found.json")
    opened = open_comparison(tmp_path / "found.json")
    for name in ("verdict", "sentence", "groups", "inputs", "outputs", "error", "probes", "exit_status"):
        assert getattr(opened, name) == getattr(found, name)
    assert opened.to_json() == json.loads(json.dumps(found.to_json()))
    assert list(opened.a.layers.values()) == list(found.a.layers.values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(version=99), "is of version 99, expected 1 or 2"),
        (lambda c: c.pop("verdict"), "is not a saved comparison"),
        (lambda c: c.update(verdict="maybe"), "is a damaged comparison"),
        (lambda c: c["groups"][0].pop("status"), "is a damaged comparison"),
    ],
)
def test_damaged_files_are_named(tmp_path, change, message):
    content = json.loads(json.dumps(compare(build(), build()).to_json()))
    change(content)
    file = tmp_path / "found.json"
    file.write_text(json.dumps(content))
    with pytest.raises(ReadError, match=f"found.json: {message}"):
        open_comparison(file)


def test_what_version_1_saved_is_opened_in_the_names_of_today():
    """The file was written by the last release that called it version 1."""
    file = Path(__file__).parents[1] / "golden" / "saved_comparisons" / "version-1.json"
    saved = json.loads(file.read_text())
    opened = open_comparison(file)
    assert (opened.verdict, opened.exit_status) == (Verdict.DIFFERENT, saved["exit_status"])
    assert opened.sentence == saved["sentence"]
    assert [group.isolated_error for group in opened.groups] == [
        group["graft_error"] for group in saved["groups"]
    ]
    carried = [group["status"] == "carries an earlier difference" for group in saved["groups"]]
    assert any(carried)
    assert [group.status is Status.PROPAGATED for group in opened.groups] == carried
    proven = [group["evidence"] == "proven by values" for group in saved["groups"]]
    assert [group.evidence is Evidence.VALUES for group in opened.groups] == proven
    assert [finding.mismatch for finding in opened.findings] == [
        group["finding"]["trap"] for group in saved["groups"] if group["finding"]
    ]
    assert open_again(opened) == opened.to_json()


def open_again(comparison):
    return json.loads(json.dumps(comparison.to_json()))


def test_former_names_work_for_one_release_and_say_so():
    found = compare(build(), build(Form(slope=0.3)))
    (group,) = [group for group in found.groups if group.finding]
    with pytest.warns(DeprecationWarning, match="Finding.trap is now Finding.mismatch"):
        assert group.finding.trap == group.finding.mismatch
    with pytest.warns(DeprecationWarning, match="Group.graft_error is now Group.isolated_error"):
        assert group.graft_error == group.isolated_error
    with pytest.warns(DeprecationWarning, match="Status.CARRIED is now Status.PROPAGATED"):
        assert Status.CARRIED is Status.PROPAGATED
    with pytest.warns(DeprecationWarning, match="Parting is now Divergence"):
        assert comparison.Parting is comparison.Divergence
    with pytest.warns(DeprecationWarning, match="carry_weights is now transfer_weights"):
        assert comparison.carry_weights is comparison.transfer_weights


def test_what_an_older_version_saved_of_nets_without_weights_is_no_equality(tmp_path):
    """It called them identical, and said in the sentence alone that weights were copied."""
    content = compare(build(), without(build(Form()))).to_json()
    rest = content["sentence"].split("other, ")[1]
    old = {"version": 1, "verdict": "identical", "sentence": f"{BY_STRUCTURE}identical: {rest}"}
    (tmp_path / "old.json").write_text(json.dumps(content | old))
    opened = open_comparison(tmp_path / "old.json")
    assert (opened.verdict, opened.exit_status) == (Verdict.STRUCTURE, 4)
    assert opened.sentence == f"same structure, weights not compared: {rest}"


def test_several_nets_of_one_structure_are_not_equal():
    nets = [("a", build()), ("b", without(build(Form()))), ("c", build(Form(fold=True)))]
    matrix = netweave.compare_all(nets)
    assert [found.verdict for found in matrix.pairs.values()] == [
        Verdict.STRUCTURE,
        Verdict.IDENTICAL,
        Verdict.STRUCTURE,
    ]
    assert matrix.exit_status == 4
    with pytest.warns(DeprecationWarning, match="compare_all compares by itself"):
        former = netweave.compare_all(nets, compare)
    assert [found.verdict for found in former.pairs.values()] == [c.verdict for c in matrix.pairs.values()]
    changed = netweave.compare_all([*nets, ("d", build(Form(changed={"fc": ((3, 5), 0.5)})))])
    assert changed.pairs[1, 3].verdict is Verdict.STRUCTURE
    assert changed.pairs[0, 3].verdict is Verdict.DIFFERENT
    assert changed.contradictions == ()  # nets of one structure may have other weights
    assert changed.exit_status == 1


def test_a_matrix_holds_every_pair_and_no_contradiction():
    forms = {"plain": {}, "folded": {"fold": True}, "swapped": {"swapped": True}, "wrong": {"slope": 0.3}}
    matrix = netweave.compare_all([(name, build(Form(**form))) for name, form in forms.items()])
    assert len(matrix.pairs) == 6
    equal = {(matrix.names[i], matrix.names[j]) for (i, j), found in matrix.pairs.items() if found.equal}
    assert equal == {("plain", "folded"), ("plain", "swapped"), ("folded", "swapped")}
    assert matrix.contradictions == ()
    assert matrix.exit_status == 1
