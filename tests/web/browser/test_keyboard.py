"""The main way through the workbench, from two nets to the mended port, by keyboard alone."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from tests.web.browser.keyboard import Keyboard
from tests.web.browser.visiting import VIEWER, selected

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = [pytest.mark.browser, pytest.mark.multi]


@pytest.fixture
def files(tmp_path):
    from tests.viewer import nets

    nets.write_example(tmp_path)
    nets.write_faulty(tmp_path)
    return tmp_path


def give(page, keys, label, *files):
    """Choose files where the focus is; what opens by Enter there is the system's own window."""
    if page.locator(".apart").get_attribute("open") is None:
        keys.tab_to(page.locator(".apart > summary"))
        keys.press("Enter")
    keys.tab_to(page.get_by_label(label, exact=True))
    page.locator(":focus").set_input_files([str(file) for file in files])
    keys.check()


def wait_for_verdict(page, keys):
    """Wait as one who presses nothing: the focus comes to the list of differences by itself."""
    page.wait_for_selector(VIEWER)
    expect(page.locator(".nw-list")).to_be_focused()
    keys.see()


@pytest.fixture
def compared(page, files):
    """The page of a comparison that was reached by keys, and its keyboard."""
    keys = Keyboard(page)
    page.goto("/")
    give(page, keys, "Files of net A", files / "leaves.prototxt", files / "leaves.caffemodel")
    expect(page.get_by_role("region", name="Net A")).to_contain_text("Caffe net, recognised")
    give(page, keys, "Files of net B", files / "faulty.prototxt", files / "faulty.caffemodel")
    compare = page.get_by_role("button", name="Compare", exact=True)
    expect(compare).to_be_enabled()
    keys.tab_to(compare)
    keys.leave("Enter")
    wait_for_verdict(page, keys)
    return page, keys


def test_two_nets_are_compared_looked_at_and_mended(compared):
    page, keys = compared
    verdict = page.locator(".nw-verdict")
    expect(verdict).to_contain_text("different at bn1")

    rows = page.locator(".nw-row-title")
    names = rows.all_inner_texts()
    assert len(names) == 3
    keys.press("Home")
    walked = []
    for _ in names:
        walked.append(selected(page)[0])
        keys.press("ArrowDown")
    assert walked == names
    keys.press("p")  # from the last difference to the one before it
    assert selected(page) == ["pool1", "pool1"]

    keys.press("Enter")
    expect(page.get_by_role("complementary", name="Details")).to_be_focused()
    keys.see()
    keys.tab_to(page.locator(".nw-inspector").get_by_role("button", name="Padding lab"))
    keys.press("Enter")
    lab = page.get_by_role("dialog", name="Padding lab")
    port = lab.locator(".nw-bench").nth(1)
    size, kernel, stride, pad = 32, 5, 2, 2
    for label, value in (("kernel", kernel), ("padding before", pad), ("padding after", pad)):
        keys.tab_to(port.get_by_label(label, exact=True))
        keys.press("Control+a")
        keys.type(str(value))
    keys.tab_to(port.get_by_role("combobox"))
    keys.type("rounds down")
    outputs = (size + 2 * pad - kernel) // stride + 1
    expect(port.get_by_role("status")).to_contain_text(f"{size} → {outputs} with padding {pad} before")
    keys.tab_to(lab.get_by_role("button", name="across"), "Shift+Tab")
    keys.press("Space")
    expect(lab.get_by_role("button", name="across")).to_be_focused()
    keys.press("Escape")
    expect(lab).to_be_hidden()
    keys.see()

    before = page.url.split("#")[0]
    keys.press("Escape")  # nothing is selected, so that the details offer all fixes at once
    keys.tab_to(page.get_by_role("button", name="Apply and compare again"))
    keys.leave("Enter")
    page.wait_for_url(lambda url: url.split("#")[0] != before)
    wait_for_verdict(page, keys)
    mended = page.url.split("#")[0]
    expect(verdict).to_contain_text("Identical")

    keys.press("?")
    expect(page.get_by_role("dialog", name="Keys and marks")).to_be_visible()
    keys.see()
    keys.press("Escape")
    expect(page.locator(".nw-list")).to_be_focused()
    keys.tab_to(page.locator("summary", has_text="Menu"), "Shift+Tab")
    keys.press("Enter")
    keys.tab_to(page.get_by_role("link", name="Help", exact=True))
    keys.leave("Enter")
    expect(page.get_by_role("heading", name="Help", exact=True)).to_be_focused()
    keys.see()
    keys.tab_to(page.get_by_role("link", name="Comparisons", exact=True), "Shift+Tab")
    keys.leave("Enter")
    expect(page.get_by_role("heading", name="Comparisons", exact=True)).to_be_focused()
    keys.tab_to(page.locator(f"main a[href='{urlsplit(mended).path}']").first)
    keys.leave("Enter")
    wait_for_verdict(page, keys)
    expect(verdict).to_contain_text("Identical")


def test_whatever_hides_or_redraws_what_has_the_focus_keeps_it(compared):
    page, keys = compared
    keys.press("/")
    keys.type("conv")
    keys.press("Escape")
    expect(page.locator(".nw-list")).to_be_focused()
    everything = page.get_by_role("group", name="What the list shows").get_by_role("button").nth(1)
    keys.tab_to(everything, "Shift+Tab")
    keys.press("Enter")
    expect(everything).to_have_attribute("aria-pressed", "true")
    expect(everything).to_be_focused()
    keys.press("o")  # the operators, which have a list of their own
    keys.press("[")  # the list goes, with what has the focus in it
    keys.see()
    keys.press("[")
    keys.tab_to(page.locator(".nw-pane[data-side='1'] canvas"), "Shift+Tab")
    keys.press("v")  # one graph instead of two
    expect(page.locator(".nw-pane[data-side='2'] canvas")).to_be_focused()
    keys.press("v")
    keys.see()
    keys.press("l")
    keys.press("n")
    keys.press("]")
    keys.press("]")
    keys.press("w")
    keys.press("Escape")
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
    keys.leave("Space")
    wait_for_verdict(page, keys)
    first = page.url.split("#")[0]
    keys.tab_to(page.locator("summary", has_text="More"), "Shift+Tab")
    keys.press("Enter")
    keys.tab_to(page.locator("details.again > summary"))
    keys.press("Enter")
    form = page.locator("form[data-again]")
    expect(form.get_by_label("From layer")).to_be_focused()
    keys.tab_to(form.get_by_role("spinbutton", name="Seed"))
    keys.type("7")
    keys.leave("Enter")
    page.wait_for_url(lambda url: url.split("#")[0] != first)
    wait_for_verdict(page, keys)
