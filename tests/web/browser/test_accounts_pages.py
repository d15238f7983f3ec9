"""Signing up, in and out in a real browser, and what one user sees of another."""

from __future__ import annotations

import pytest

from tests.web.browser.visiting import AXE, compare_a_sample, problems
from tests.web.running import Workbench

playwright = pytest.importorskip("playwright.sync_api")

pytestmark = [pytest.mark.browser, pytest.mark.multi]

PASSWORD = "a long word, and 7 more"


@pytest.fixture(scope="module")
def team(tmp_path_factory):
    """A workbench at which anybody may make an account."""
    with Workbench(tmp_path_factory.mktemp("team"), settings='accounts = "open"') as running:
        yield running


@pytest.fixture
def visitor(visit, team):
    """Open a page of the team's workbench in a browser of its own."""
    return lambda **chosen: visit(base_url=team.url, **chosen)


def sign_up(page, name, password=PASSWORD):
    page.goto("/")
    page.get_by_role("link", name="Sign up").click()
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password", exact=True).fill(password)
    page.get_by_label("Password confirmation").fill(password)
    page.get_by_role("button", name="Sign up").click()


def sign_in(page, name, password=PASSWORD):
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password", exact=True).fill(password)
    page.get_by_role("button", name="Sign in").click()


def test_a_bad_password_is_refused_at_its_field_and_the_name_is_kept(visitor):
    page = visitor()
    sign_up(page, "ada", "12345678")
    described = page.get_by_label("Password confirmation").get_attribute("aria-describedby")
    playwright.expect(page.locator(f"#{described}")).to_contain_text("too common")
    playwright.expect(page.get_by_label("Username")).to_have_value("ada")


def test_a_user_signs_up_out_and_in_and_finds_what_was_left(visitor):
    page = visitor()
    sign_up(page, "grace")
    done = compare_a_sample(page)
    page.locator("summary", has_text="Menu").click()
    page.get_by_role("button", name="Sign out").click()
    page.goto(done)
    sign_in(page, "grace", "not the password")
    playwright.expect(page.get_by_role("alert")).to_contain_text("correct username and password")
    sign_in(page, "grace")
    page.wait_for_url(done)  # where the user wanted to go before
    page.goto("/comparisons/")
    playwright.expect(
        page.locator(f"a[href='{done.removeprefix(page.url.rpartition('/comparisons')[0])}']")
    ).to_be_visible()


def test_a_user_sees_nothing_of_another(visitor):
    first, second = visitor(), visitor()
    sign_up(first, "barbara")
    done = compare_a_sample(first)
    sign_up(second, "hedy")
    second.goto("/comparisons/")
    playwright.expect(second.get_by_role("main")).not_to_contain_text("padding")
    assert second.request.get(done).status == 404
    assert visitor().request.get(done, max_redirects=0).status == 302


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: tools/frontend")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_screen_reader_finds_its_way_in(visitor, scheme):
    page = visitor(color_scheme=scheme)
    for name in ("Sign in", "Sign up"):
        page.goto("/")
        if name == "Sign up":
            page.get_by_role("link", name=name).click()
            page.get_by_role("button", name=name).click()  # refused: nothing was typed
        playwright.expect(page.get_by_role("heading", name=name)).to_be_visible()
        assert problems(page) == [], name
