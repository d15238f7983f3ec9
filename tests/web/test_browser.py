"""The page opens by itself where somebody sits before it."""

from __future__ import annotations

import threading

import pytest
from click.testing import CliRunner

from netweave.cli import netweave
from netweave.web.serve import DISPLAYS, has_desktop


@pytest.fixture
def opened(monkeypatch):
    """What browsers are asked to open; the workbench answers at once and ends."""
    found: list[str] = []
    arrived = threading.Event()
    monkeypatch.setattr("webbrowser.open", lambda address: (found.append(address), arrived.set()))

    def serve(data, *, ready, **_):
        ready("http://127.0.0.1:8642/", data)
        arrived.wait(1)

    monkeypatch.setattr("netweave.web.serve.serve", serve)
    return found


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"DISPLAY": ":0"}, True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, True),
        ({"DISPLAY": ":10", "SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}, False),
    ],
)
def test_a_window_is_there_on_a_desktop(monkeypatch, environment, expected):
    monkeypatch.setattr("sys.platform", "linux")
    for name in (*DISPLAYS, "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert has_desktop() is expected


def test_the_page_is_opened_on_request_and_not_where_nobody_sits(opened, tmp_path):
    runner = CliRunner()
    said = runner.invoke(netweave, ["serve", "--data", str(tmp_path), "--open"], catch_exceptions=False)
    assert opened == ["http://127.0.0.1:8642/"]
    assert "The workbench is at http://127.0.0.1:8642/" in said.output
    opened.clear()
    runner.invoke(netweave, ["serve", "--data", str(tmp_path)], catch_exceptions=False)  # no terminal
    runner.invoke(netweave, ["serve", "--data", str(tmp_path), "--no-open"], catch_exceptions=False)
    assert opened == []
