"""Who can use the page, and what a file cannot do to it."""

from __future__ import annotations

import pytest

from tests.viewer import nets
from tests.viewer.conftest import ROOT

pytestmark = pytest.mark.browser


def test_everything_by_keyboard(show, faulty):
    shown = show(faulty)
    page = shown.page
    page.locator("canvas[role=application]").first.focus()
    shown.press("Escape")
    assert shown.selected == ["≠different"]
    shown.press("ArrowDown")
    assert shown.selected == ["data", "data"]
    shown.press("ArrowDown", "ArrowDown")
    assert shown.selected[:1] == ["bn1"]
    live = page.locator("[aria-live=polite]")
    assert live.inner_text() == "A: bn1, BatchNorm; B: bn1, BatchNorm; different"
    shown.press("ArrowUp")
    assert shown.selected == ["conv1", "conv1"]
    shown.press("Enter")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Details"
    shown.press("?")
    dialog = page.get_by_role("dialog")
    assert dialog.is_visible()
    shown.press("Escape")
    assert not dialog.is_visible()
    # all that can be clicked is reached by the tab key
    page.locator(".nw-menu > summary").press("Enter")
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.getAttribute('aria-label')"))
    for name in (
        "Next difference (n)",
        "Show operators (o)",
        "Save as SVG",
        "Layers",
        "Fit to the window (0)",
    ):
        assert name in reached


def test_the_list_is_a_list_for_a_screen_reader(show):
    shown = show(nets.residual(200))
    page = shown.page
    layers = page.get_by_role("listbox", name="Layers")
    layers.focus()
    shown.press("End")
    option = layers.get_by_role("option", selected=True)
    assert option.get_attribute("aria-posinset") == option.get_attribute("aria-setsize") == "601"
    assert page.locator(f"#{layers.get_attribute('aria-activedescendant')}").count() == 1
    assert page.locator(".nw-row").count() < 60


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing(show, port, dark):
    shown = show(port, dark=dark)
    axe = ROOT / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
    shown.page.evaluate(axe.read_text())
    for state in ("selected", "nothing"):
        found = shown.page.evaluate("axe.run().then((found) => found.violations)")
        summary = [(rule["id"], [node["html"][:120] for node in rule["nodes"]][:3]) for rule in found]
        assert not summary, state
        shown.press("Escape")


def test_all_of_it_fits_in_a_small_window(show, port):
    page = show(port).page
    size = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
    assert size == [1280, 720]
    for button in page.locator(".nw-tools :is(button, summary):visible").all():
        box = button.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 1280


def test_names_cannot_become_markup_or_script(show):
    shown = show(nets.hostile())
    page = shown.page
    shown.press("/")
    page.keyboard.type("window.pwned")
    shown.press("Enter")
    assert "<img src=x onerror=" in shown.selected[0]
    page.get_by_role("button", name="Collapse all blocks", exact=True).click()
    svg = shown.svg()
    assert page.evaluate("window.pwned") is None
    assert page.locator("img").count() == 0
    assert not [element for element in svg.iter() if element.tag.endswith(("script", "img"))]
    assert not shown.errors


def test_nothing_is_asked_of_the_network(show, port):
    shown = show(port)
    shown.press("n", "o", "h")
    assert {url.split(":")[0] for url in shown.requests} <= {"file", "blob", "data"}
    assert len([url for url in shown.requests if url.startswith("file:")]) == 1


def test_the_policy_lets_no_other_script_run(show, port):
    shown = show(port)
    shown.page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {text: 'window.pwned = 1'}))"
    )
    assert shown.page.evaluate("window.pwned") is None
    assert any("Content Security Policy" in error for error in shown.errors)
