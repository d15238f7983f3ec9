"""With accounts: who must sign in, what is private, how tries are bounded."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from netweave.web.models import Workspace

PASSWORD = "correct horse battery"


@pytest.fixture
def team(choose, visitor):
    choose(accounts="open", sign_ins_per_minute=1000)
    for name in ("ada", "bo"):
        User.objects.create_user(name, password=PASSWORD)

    def sign_in(name):
        person = visitor()
        person.open("/sign-in/")
        assert person.submit("/sign-in/", username=name, password=PASSWORD).status_code == 302
        person.open("/")
        return person

    return sign_in


@pytest.mark.parametrize("page", ["/", "/comparisons/", "/programs/"])
def test_pages_send_strangers_to_sign_in_and_back(team, visitor, page):
    response = visitor().open(page)
    assert (response.status_code, response["Location"]) == (302, f"/sign-in/?next={page}")


def test_the_api_refuses_strangers(team, visitor):
    stranger = visitor()
    stranger.open("/sign-in/")
    assert stranger.call("GET", "/comparisons").status_code == 401
    assert stranger.call("POST", "/nets", {}).status_code == 401
    assert not Workspace.objects.exists()


@pytest.mark.slow
def test_uploads_are_private_and_follow_the_account(team):
    key = team("ada").make_comparison()
    assert team("ada").open(f"/comparisons/{key}/").status_code == 200
    other = team("bo")
    assert other.open(f"/comparisons/{key}/").status_code == 404
    assert other.call("GET", f"/comparisons/{key}").status_code == 404
    assert other.call("GET", "/comparisons").json() == []


def test_a_workspace_of_a_browser_opens_nothing_once_there_are_accounts(visitor, choose):
    owner = visitor()
    key = owner.make_comparison()
    token = owner.make_token()
    choose(accounts="closed")
    assert owner.open(f"/comparisons/{key}/").status_code == 302
    headers = {"Authorization": f"Bearer {token}"}
    assert owner.client.get(f"/api/comparisons/{key}", headers=headers).status_code == 401


def test_signing_up_makes_an_account_where_anybody_may(team, visitor, choose):
    person = visitor()
    person.open("/sign-up/")
    made = person.submit("/sign-up/", username="cleo", password1=PASSWORD, password2=PASSWORD)
    assert made.status_code == 302
    assert person.open("/").status_code == 200
    choose(accounts="closed")
    assert visitor().open("/sign-up/").status_code == 404
    assert visitor().open("/sign-in/").status_code == 200


def test_weak_passwords_and_taken_names_are_refused_with_a_reason(team, visitor):
    person = visitor()
    person.open("/sign-up/")
    page = person.submit("/sign-up/", username="ada", password1="12345", password2="12345").content.decode()
    assert "already exists" in page
    assert "too short" in page


def test_signing_out_ends_it(team):
    person = team("ada")
    person.submit("/sign-out/")
    assert person.open("/comparisons/").status_code == 302


def test_an_account_that_was_closed_opens_nothing_also_not_by_token(team):
    person = team("ada")
    key = person.make_comparison()
    token = person.make_token()
    User.objects.filter(username="ada").update(is_active=False)
    headers = {"Authorization": f"Bearer {token}"}
    assert person.client.get(f"/api/comparisons/{key}", headers=headers).status_code == 401
    assert person.open("/comparisons/").status_code == 302


@pytest.mark.slow
def test_tries_to_sign_in_are_bounded_by_address_and_by_name(team, visitor, choose, monkeypatch):
    monkeypatch.setattr("netweave.web.pages.accounts.NAME_FACTOR", 2)
    choose(sign_ins_per_minute=3)

    def tries(address, name):
        person = visitor(address)
        person.open("/sign-in/")
        return person.submit("/sign-in/", username=name, password="wrong").status_code

    assert [tries("10.0.0.1", "ada") for _ in range(4)] == [200, 200, 200, 429]
    assert tries("10.0.0.2", "ada") == 200  # whoever tries names elsewhere does not lock their owners out
    others = [tries(f"10.0.1.{n}", "ada") for n in range(6)]
    assert others.count(200) == 6 - 4
    assert others[-1] == 429
    assert tries("10.0.0.2", "bo") == 200


def test_the_way_back_after_signing_in_leads_nowhere_else(team, visitor):
    person = visitor()
    person.open("/sign-in/")
    done = person.submit("/sign-in/", username="ada", password=PASSWORD, next="https://evil.example/")
    assert done["Location"] == "/"
