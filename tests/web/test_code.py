"""Files that contain code are refused until one allows them on one's own machine, or the operator does."""

from __future__ import annotations

import pytest

from netweave.web.models import Net, State, Workspace
from netweave.web.owners import may_read_code
from netweave.web.work import supervise, tasks

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
