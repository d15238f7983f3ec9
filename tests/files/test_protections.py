"""What ``netweave doctor`` finds out: each protection is tried, and said to be off where it is."""

from __future__ import annotations

import pytest

from netweave.files import protections as module
from netweave.files import sandbox
from netweave.files.protections import protections

guarded = pytest.mark.skipif(not sandbox.has_guard(), reason="bubblewrap is not installed")


@guarded
@pytest.mark.slow
def test_all_are_on_where_the_guard_is():
    found = protections()
    assert [row.name for row in found if not row.is_on] == []
    assert len(found) == 8


@guarded
@pytest.mark.slow
def test_a_protection_that_is_missing_is_off(monkeypatch):
    monkeypatch.setattr(sandbox, "seccomp_filter", lambda: None)
    found = {row.name: row.is_on for row in protections()}
    assert not found["memory shared between processes"]
    assert found["no network"]


def test_without_the_guard_there_is_one_row(monkeypatch):
    monkeypatch.setattr(module, "has_guard", lambda: False)
    (row,) = protections()
    assert not row.is_on
    assert "bwrap" in row.detail
