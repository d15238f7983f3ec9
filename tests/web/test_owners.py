"""Nobody sees or changes what is another's, not even with its address in hand."""

from __future__ import annotations

import pytest

from netweave.web.models import Comparison, Net, Workspace

NET_CALLS = (
    ("GET", "/nets/{}"),
    ("PATCH", "/nets/{}"),
    ("DELETE", "/nets/{}"),
    ("PUT", "/nets/{}/files/a.onnx"),
    ("DELETE", "/nets/{}/files/net.onnx"),
    ("GET", "/nets/{}/document"),
    ("GET", "/nets/{}/export/html"),
    ("POST", "/nets/{}/allow-code"),
)
COMPARISON_CALLS = (
    ("GET", "/comparisons/{}"),
    ("PATCH", "/comparisons/{}"),
    ("DELETE", "/comparisons/{}"),
    ("POST", "/comparisons/{}/cancel"),
    ("POST", "/comparisons/{}/share"),
    ("DELETE", "/comparisons/{}/share"),
    ("GET", "/comparisons/{}/result"),
    ("GET", "/comparisons/{}/document"),
    ("GET", "/comparisons/{}/export/html"),
    ("GET", "/comparisons/{}/export/patch"),
)
FORMS = ("rename", "delete", "cancel", "share")


def snapshot():
    return list(Net.objects.order_by("pk").values()), list(Comparison.objects.order_by("pk").values())


@pytest.mark.parametrize(("method", "path"), NET_CALLS)
def test_a_net_of_another_is_not_there(visitor, method, path):
    key = visitor().make_net(**{"net.onnx": b"x"})
    before = snapshot()
    thief = visitor()
    thief.make_net()
    assert thief.call(method, path.format(key), {"name": "mine"}).status_code == 404
    assert visitor().call(method, path.format(key), {"name": "mine"}).status_code == 404
    assert [row for row in snapshot()[0] if row["name"]] == [row for row in before[0] if row["name"]]


@pytest.mark.parametrize(("method", "path"), COMPARISON_CALLS)
def test_a_comparison_of_another_is_not_there(visitor, method, path):
    key = visitor().make_comparison()
    before = snapshot()[1]
    thief = visitor()
    thief.make_net()
    assert thief.call(method, path.format(key), {"name": "mine"}).status_code == 404
    assert snapshot()[1] == before


def test_pages_of_another_are_not_there(visitor):
    owner = visitor()
    key = owner.make_comparison()
    net = str(Comparison.objects.get().net_a_id)
    pages = [f"/comparisons/{key}/", f"/nets/{net}/"]
    assert [owner.open(page).status_code for page in pages] == [200, 200]
    before = snapshot()
    for thief in (visitor(), visitor()):
        assert [thief.open(page).status_code for page in pages] == [404, 404]
        forms = [f"/comparisons/{key}/{form}/" for form in FORMS] + [f"/nets/{net}/delete/"]
        assert {thief.submit(form, name="mine").status_code for form in forms} == {404}
        thief.make_net()
    assert snapshot()[1] == before[1]
    assert Net.objects.filter(pk=net).exists()


def test_nets_of_another_cannot_be_compared_with_ones_own(visitor):
    other, own = visitor().make_net(**{"n.onnx": b"x"}), visitor()
    mine = own.make_net(**{"n.onnx": b"x"})
    assert own.call("POST", "/comparisons", {"a": mine, "b": other}).status_code == 404


def test_lists_hold_ones_own_only(visitor):
    visitor().make_comparison()
    other = visitor()
    assert other.call("GET", "/comparisons").json() == []
    assert other.call("GET", "/nets").json() == []
    assert b"No comparisons yet" in other.open("/comparisons/").content


def test_a_shared_link_shows_and_no_more_and_ends(visitor):
    owner, guest = visitor(), visitor()
    key = owner.make_comparison()
    Comparison.objects.update(state="done", verdict="identical", sentence="identical: yes")
    shared = owner.call("POST", f"/comparisons/{key}/share").json()["shared"]
    assert len(shared.split("/")[2]) == 43
    page = guest.open(shared)
    assert page.status_code == 200
    assert b"shared with you" in page.content
    assert b"Delete" not in page.content
    assert key.encode() not in page.content
    assert guest.open(f"/comparisons/{key}/").status_code == 404
    owner.call("DELETE", f"/comparisons/{key}/share")
    assert guest.open(shared).status_code == 404
    again = owner.call("POST", f"/comparisons/{key}/share").json()["shared"]
    assert again != shared


@pytest.mark.parametrize("secret", ["", "x", "0" * 43, "a" * 200])
def test_guessed_shared_links_find_nothing_also_not_what_is_not_shared(visitor, secret):
    visitor().make_comparison()
    Comparison.objects.update(state="done")
    assert visitor().open(f"/shared/{secret}/").status_code == 404


def test_a_cookie_that_was_tampered_with_opens_nothing(visitor):
    owner, thief = visitor(), visitor()
    key = owner.make_comparison()
    workspace = Comparison.objects.get().workspace_id
    thief.client.cookies["netweave-workspace"] = f"{workspace}:forged"
    assert thief.open(f"/comparisons/{key}/").status_code == 404


def test_a_token_opens_its_workspace_until_it_is_replaced(visitor):
    owner = visitor()
    key = owner.make_comparison()

    def status(token):
        headers = {"Authorization": f"Bearer {token}"}
        return visitor().client.get(f"/api/comparisons/{key}", headers=headers).status_code

    token = owner.make_token()
    assert token not in str(list(Comparison.objects.get().workspace.__dict__.values()))
    assert status(token) == 200
    assert status("nw_guess") == status("") == 401
    newer = owner.make_token()
    assert (status(token), status(newer)) == (401, 200)


def test_programs_with_a_token_need_no_cookies(visitor):
    from django.test import Client

    owner = visitor()
    owner.make_net()
    token = owner.make_token()
    program = Client(enforce_csrf_checks=True, headers={"Authorization": f"Bearer {token}"})
    assert program.post("/api/nets", {}, "application/json").status_code == 201


def test_a_form_for_a_token_that_is_sent_again_replaces_nothing(visitor):
    owner = visitor()
    owner.make_net()
    owner.open("/programs/")
    first = owner.submit("/programs/", replaces="").content.decode()
    assert 'id="token"' in first
    kept = Workspace.objects.exclude(token_hash="").get().token_hash
    again = owner.submit("/programs/", replaces="").content.decode()  # what F5 sends
    assert 'id="token"' not in again
    assert "no token was created" in again
    assert Workspace.objects.exclude(token_hash="").get().token_hash == kept


def test_on_ones_own_machine_every_browser_and_name_is_the_same_person(visitor, choose):
    earlier = visitor()
    net = earlier.make_net(**{"net.onnx": b"x"})
    choose(hosts=())
    here, there = visitor(), visitor()
    there.client.defaults["HTTP_HOST"] = "127.0.0.1:8642"
    key = here.make_comparison()
    assert there.open(f"/comparisons/{key}/").status_code == 200
    assert "netweave-workspace" not in here.client.cookies
    # what browsers brought before there was one workspace is still there
    assert there.call("GET", f"/nets/{net}").status_code == 200
    assert Workspace.objects.count() == 1


def test_what_a_token_opened_before_it_opens_in_the_one_workspace(visitor, choose):
    owner = visitor()
    net = owner.make_net(**{"net.onnx": b"x"})
    headers = {"Authorization": f"Bearer {owner.make_token()}"}
    choose(hosts=())
    visitor().make_net()
    assert visitor().client.get(f"/api/nets/{net}", headers=headers).status_code == 200


@pytest.mark.parametrize("chosen", [{"hosts": ("nets.example",)}, {"hosts": (), "accounts": "closed"}])
def test_where_others_come_nobody_shares_a_workspace(choose, chosen):
    from django.conf import settings

    choose(**chosen)
    assert not settings.OPTIONS.is_personal
