"""``--html``: one file that holds everything, or an error before anything is compared."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil
from importlib import resources

import pytest

from examples.padding import demo
from netweave.comparison import Verdict
from tests.viewer import nets


@pytest.fixture
def front_end(monkeypatch, tmp_path):
    """A front end that is built, or not, whatever lies in the checkout."""
    monkeypatch.setattr(resources, "files", lambda package: tmp_path)
    folder = tmp_path / "static"

    def build():
        folder.mkdir()
        (folder / "viewer.js").write_text("globalThis.netweave = {viewer: {mount() {}}};")
        (folder / "viewer.css").write_text("body {margin: 0}")

    return build


def document_of(page: str) -> dict:
    (text,) = re.findall(r'<script type="application/json" id="document">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


def test_compare_writes_a_page(netweave, front_end, tmp_path):
    front_end()
    file = tmp_path / "found.html"
    nets.write_example(tmp_path)
    pair = [str(tmp_path / name) for name in ("leaves.prototxt", "leaves-symbol.json")]
    done = netweave("compare", *pair, "--html", str(file))
    assert done.status == 1
    assert "different at pool1 / down1" in done.out
    document = document_of(file.read_text())
    assert document["verdict"] == "different"
    assert [net["format"] for net in document["nets"]] == ["Caffe", "MXNet"]


def test_inspect_and_show_write_pages(netweave, front_end, tmp_path):
    front_end()
    saved, file = tmp_path / "found.json", tmp_path / "page.html"
    net = shutil.copy(demo.NET, tmp_path)  # beside the net itself, `make demo` leaves weights
    assert netweave("inspect", str(net), "--html", str(file)).status == 0
    assert document_of(file.read_text())["kind"] == "net"
    assert netweave("compare", str(net), str(net), "--json", str(saved)).status == 4
    assert netweave("show", str(saved), "--html", str(file)).status == 4
    document = document_of(file.read_text())
    assert (document["exit_status"], document["verdict"]) == (4, Verdict.STRUCTURE.value)


def test_the_policy_allows_the_scripts_of_the_page_and_no_other(netweave, front_end, tmp_path):
    front_end()
    file = tmp_path / "page.html"
    netweave("inspect", str(demo.NET), "--html", str(file))
    page = file.read_text()
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1])
    allowed = set(re.findall(r"'sha256-([^']+)'", policy.split("script-src")[1].split(";")[0]))
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 2
    assert allowed == {base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts}
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_a_front_end_that_is_not_built_is_said_at_once(netweave, front_end, tmp_path):
    file = tmp_path / "page.html"
    done = netweave("compare", "no.prototxt", "nothing.json", "--html", str(file))
    assert done.status == 2
    assert re.search(r"viewer\.js is missing.*run .make frontend.", done.err, re.DOTALL)
    assert not file.exists()


def test_a_page_shows_two_nets(netweave, front_end, tmp_path):
    front_end()
    net = str(demo.NET)
    done = netweave("compare", net, net, net, "--html", str(tmp_path / "page.html"))
    assert done.status == 2
    assert "--html shows two nets" in done.err


def test_a_folder_that_is_not_there_is_named(netweave, front_end, tmp_path):
    front_end()
    file = tmp_path / "nowhere" / "page.html"
    done = netweave("inspect", str(demo.NET), "--html", str(file))
    assert done.status == 2
    assert f"{file}: cannot be written" in done.err
