"""Parts of the way through the workbench by keyboard alone: files, a comparison, and the same again."""

from __future__ import annotations

import pytest

from tests.web.browser.keyboard import Keyboard
from tests.web.browser.visiting import VIEWER

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = [pytest.mark.browser, pytest.mark.multi]


@pytest.fixture
def files(tmp_path):
    from tests.viewer import nets

    nets.write_example(tmp_path)
    return tmp_path


def give(page, keys, label, *files):
    """Choose files where the focus is; what opens by Enter there is the system's own window."""
    keys.tab_to(page.get_by_label(label, exact=True))
    page.locator(":focus").set_input_files([str(file) for file in files])
    keys.check()


def wait_for_verdict(page, keys):
    """Wait as one who presses nothing: the focus comes to the list of differences by itself."""
    page.wait_for_selector(VIEWER)
    expect(page.locator(".nw-list")).to_be_focused()
    keys.see()


def test_files_are_removed_and_a_comparison_again_is_asked_for(page, files):
    keys = Keyboard(page)
    page.goto("/")
    give(page, keys, "Files of net A", files / "leaves.prototxt", files / "leaves.caffemodel")
    side = page.get_by_role("region", name="Net A")
    expect(side).to_contain_text("Caffe net, recognised")
    keys.tab_to(side.get_by_role("button", name="Remove leaves.caffemodel"))
    keys.press("Enter")
    expect(side).to_contain_text("The weights are missing")
    keys.see()
    keys.tab_to(side.get_by_role("button", name="Start over"), "Shift+Tab")
    keys.press("Space")
    expect(side.get_by_label("Files of net A", exact=True)).to_be_focused()
    keys.tab_to(page.get_by_role("button", name="A port with a mistake"))
    keys.press("Space")
    compare = page.get_by_role("button", name="Compare", exact=True)
    expect(compare).to_be_enabled()
    keys.tab_to(compare, "Shift+Tab")
    keys.leave("Space")
    wait_for_verdict(page, keys)
    first = page.url.split("#")[0]
    keys.tab_to(page.locator("details.again > summary"), "Shift+Tab")
    keys.press("Enter")
    form = page.locator("form[data-again]")
    expect(form.get_by_label("From layer")).to_be_focused()
    keys.tab_to(form.get_by_role("spinbutton", name="Seed"))
    keys.type("7")
    keys.leave("Enter")
    page.wait_for_url(lambda url: url.split("#")[0] != first)
    wait_for_verdict(page, keys)
