"""The operator's choices: defaults, what is taken, what is refused and how."""

from __future__ import annotations

import os
import stat

import pytest

from netweave.errors import ReadError, UsageError
from netweave.web.options import SECRET_KEY_FILE, default_data, make_data_folder, read_options
from netweave.web.serve import serve


def test_nothing_needs_to_be_chosen(tmp_path):
    options = read_options(tmp_path / "new")
    assert (options.accounts, options.code, options.https, options.storage) == ("off", False, False, "")
    assert options.workers >= 1


def test_choices_are_read(tmp_path):
    (tmp_path / "settings.toml").write_text(
        'accounts = "closed"\nhosts = ["a.example"]\nmax_seconds = 60\ncode = true\n'
    )
    options = read_options(tmp_path)
    assert (options.accounts, options.hosts, options.max_seconds, options.code) == (
        "closed",
        ("a.example",),
        60.0,
        True,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("accounts = 'maybe'", r"settings\.toml: accounts is 'maybe', expected 'off', 'closed' or 'open'"),
        ("max_file_mb = '2'", "max_file_mb is '2', expected a value such as 2048"),
        ("workers = 0", "workers is 0, expected more than 0"),
        ("code = 1", "code is 1, expected a value such as False"),
        ("speed = 3\nhosts = []", "has unknown settings: speed; expected hosts"),
        ("data = '/'", "has unknown settings: data"),
        ("a = = 1", "is not valid TOML"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, text, message):
    (tmp_path / "settings.toml").write_text(text)
    with pytest.raises(ReadError, match=message):
        read_options(tmp_path)


def test_the_data_folder_is_for_its_owner_and_keeps_its_key(tmp_path):
    data = tmp_path / "a" / "data"
    make_data_folder(data)
    key = (data / SECRET_KEY_FILE).read_text()
    make_data_folder(data)
    assert (data / SECRET_KEY_FILE).read_text() == key
    assert len(key) >= 64
    assert stat.S_IMODE((data / SECRET_KEY_FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE(data.stat().st_mode) == 0o700


def test_a_file_in_place_of_the_data_folder_is_told(tmp_path):
    (tmp_path / "data").write_text("")
    with pytest.raises(UsageError, match="is a file, expected a folder"):
        make_data_folder(tmp_path / "data")


def test_the_data_folder_is_where_the_desktop_has_it(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_data() == tmp_path / "netweave"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_data() == tmp_path / ".local" / "share" / "netweave"


def start(data, **chosen):
    environment = dict(os.environ)
    try:
        serve(
            data, **{"host": "127.0.0.1", "port": 1, "workers": None, "runs": None, "ready": print, **chosen}
        )
    finally:
        os.environ.clear()
        os.environ.update(environment)


def test_an_address_open_to_others_needs_names(tmp_path, monkeypatch):
    monkeypatch.setattr("netweave.web.serve.STATIC", "web/serve.py")
    with pytest.raises(UsageError, match=r"0\.0\.0\.0 can be reached from other machines.*hosts = "):
        start(tmp_path, host="0.0.0.0")


def test_a_port_that_is_taken_is_told(tmp_path, monkeypatch):
    import socket

    monkeypatch.setattr("netweave.web.serve.STATIC", "web/serve.py")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{port}.*--port"):
            start(tmp_path, port=port)


def test_a_front_end_that_is_not_built_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("netweave.web.serve.STATIC", "viewer/static/not-there.js")
    with pytest.raises(UsageError, match="the front end is not built; run 'make frontend'"):
        start(tmp_path)
