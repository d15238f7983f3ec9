"""Files that contain code are refused until one allows them on one's own machine, or the operator does."""

from __future__ import annotations

import io
import os
import shutil
import stat

import pytest

from netweave.web.models import Net, State, Workspace
from netweave.web.owners import may_read_code
from netweave.web.work import supervise, tasks
from tests.web.running import Workbench

SCRIPT = b"import torch\n\nclass Net(torch.nn.Module):\n    pass\n"


@pytest.fixture(autouse=True)
def _ones_own_machine(choose):
    choose(hosts=())


@pytest.fixture
def requests(monkeypatch):
    """What the child processes are asked to do, in place of doing it: each refuses the code."""
    made = []

    def run(request, **_):
        made.append(request)
        raise supervise.FailedError("contains code", {"needs_code": not request.code})

    monkeypatch.setattr(supervise, "run", run)
    return made


def read(key: str) -> Net:
    """Do what a worker does with a net that is queued."""
    tasks._once(Net, key, tasks._read)
    return Net.objects.get(pk=key)


def test_one_button_allows_code_from_then_on(visitor, requests):
    owner = visitor()
    key = owner.make_net(**{"net.py": SCRIPT})
    net = read(key)
    assert (net.state, net.facts["needs_code"]) == (State.FAILED, True)
    assert b"Read files with code" in owner.open(f"/nets/{key}/").content
    assert owner.submit(f"/nets/{key}/allow-code/").status_code == 302
    assert Net.objects.get(pk=key).state == State.QUEUED
    assert not read(key).facts["needs_code"]
    second = owner.make_net(**{"other.py": SCRIPT})
    read(second)
    assert [request.code for request in requests] == [False, True, True]
    assert requests[0].asks_for_code


def test_a_page_of_another_site_cannot_press_the_button(visitor):
    owner = visitor()
    key = owner.make_net(**{"net.py": SCRIPT})
    owner.token = "forged"
    assert owner.submit(f"/nets/{key}/allow-code/").status_code == 403
    assert owner.call("POST", f"/nets/{key}/allow-code").status_code == 403
    assert owner.client.get(f"/nets/{key}/allow-code/").status_code == 405
    assert not Workspace.objects.get().reads_code


@pytest.mark.parametrize("chosen", [{"hosts": ("nets.example",)}, {"accounts": "open"}])
def test_where_others_come_it_is_the_operators_choice(visitor, choose, requests, chosen):
    owner = visitor()
    key = owner.make_net(**{"net.py": SCRIPT})
    owner.call("POST", f"/nets/{key}/allow-code")
    workspace = Workspace.objects.get()
    assert may_read_code(workspace)
    choose(**chosen)
    assert not may_read_code(workspace), "what one allowed for oneself does not hold for others"
    read(key)
    assert not requests[-1].code
    assert not requests[-1].asks_for_code
    choose(code=True)
    assert may_read_code(workspace)


def test_a_visitor_of_a_team_cannot_allow_code(visitor, choose):
    choose(hosts=("nets.example",))
    owner = visitor()
    key = owner.make_net(**{"net.py": SCRIPT})
    refused = owner.call("POST", f"/nets/{key}/allow-code")
    assert (refused.status_code, "code = true" in refused.json()["detail"]) == (422, True)
    Net.objects.filter(pk=key).update(state=State.FAILED, facts={"needs_code": True})
    assert b"Read files with code" not in owner.open(f"/nets/{key}/").content
    assert not Workspace.objects.get().reads_code


def test_the_help_says_which_files_of_a_format_are_code(visitor, choose):
    """A Keras net may be a file of code, and need not be; all of PyTorch's may hold some."""

    def line(title: str) -> str:
        page = visitor().open("/help/").content.decode()
        (row,) = (row for row in page.split("<tr>") if f'<th scope="row">{title}' in row)
        return row

    assert "asks first: .py files, which contain code" in line("Keras")
    assert "NET.keras" in line("Keras")
    assert "asks first: its files contain code" in line("PyTorch")
    assert "contain code" not in line("Caffe")
    choose(hosts=("workbench.example",))
    assert "disabled here: .py files, which contain code" in line("Keras")
    choose(hosts=("workbench.example",), code=True)
    assert "code" not in line("Keras")


@pytest.mark.slow
@pytest.mark.multi
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="the guard, bubblewrap, is not here")
def test_an_exported_program_is_read_though_only_its_owner_may(tmp_path):
    """The storage keeps uploads for their owner alone; where that is root, the guarded reader is nobody."""
    torch = pytest.importorskip("torch")
    content = io.BytesIO()
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU())
    torch.export.save(torch.export.export(module, (torch.zeros(1, 3, 8, 8),)), content)
    with Workbench(tmp_path / "data", settings="code = true") as bench:
        program = bench.program()
        net = program.call("POST", "/nets", {})["id"]
        program.call("PUT", f"/nets/{net}/files/net.pt2", raw=content.getvalue())
        found = program.wait(f"/nets/{net}")
        (stored,) = (path for path in (bench.data / "files" / "nets").rglob("*") if path.is_file())
        assert stat.S_IMODE(stored.stat().st_mode) == 0o600
        assert stored.stat().st_uid == os.getuid()
    assert (found["state"], found["error"]) == ("done", "")
    assert found["facts"]["title"] == "PyTorch"
    assert found["facts"]["parameters"] == 4 * 3 * 9 + 4
