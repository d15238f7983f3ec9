"""Comparisons saved and opened again, and several nets at once."""

from __future__ import annotations

import json

import pytest

import netweave
from netweave.comparison import (
    Verdict,
    compare,
    open_comparison,
    save_comparison,
)
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
        (lambda c: c.update(version=99), "is of version 99, expected 2"),
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


def open_again(comparison):
    return json.loads(json.dumps(comparison.to_json()))


def test_several_nets_of_one_structure_are_not_equal():
    nets = [("a", build()), ("b", without(build(Form()))), ("c", build(Form(fold=True)))]
    matrix = netweave.compare_all(nets)
    assert [found.verdict for found in matrix.pairs.values()] == [
        Verdict.STRUCTURE,
        Verdict.IDENTICAL,
        Verdict.STRUCTURE,
    ]
    assert matrix.exit_status == 4
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
