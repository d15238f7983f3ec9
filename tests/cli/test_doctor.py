"""``netweave doctor``: rows, JSON and the exit status."""

from __future__ import annotations

import json

from netweave import api
from netweave.files.protections import Protection


def test_the_exit_status_says_whether_all_is_on(netweave, monkeypatch):
    rows = [Protection("a guard", True, "bwrap"), Protection("no network", False, "none")]
    monkeypatch.setattr(api, "protections", lambda: tuple(rows))
    called = netweave("doctor")
    assert called.status == 1
    assert called.out.splitlines() == ["on   a guard: bwrap", "OFF  no network: none"]
    rows.pop()
    called = netweave("doctor", "--json", "-")
    assert called.status == 0
    assert json.loads(called.out) == {"protections": [{"name": "a guard", "is_on": True, "detail": "bwrap"}]}
