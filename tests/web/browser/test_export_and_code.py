"""Sending a comparison on, and allowing code, as a person does it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.web.browser.visiting import AXE, VIEWER, compare_a_sample, open_more, problems
from tests.web.running import Workbench

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = [pytest.mark.browser, pytest.mark.multi]


def test_a_comparison_is_sent_on_as_a_page_and_as_text_for_an_issue(visit):
    page = visit(permissions=["clipboard-read", "clipboard-write"])
    compare_a_sample(page)
    open_more(page)
    menu = page.locator("summary", has_text="Export")
    menu.focus()
    page.keyboard.press("Enter")
    with page.expect_download() as download:
        page.get_by_role("link", name="HTML page").press("Enter")
    page.get_by_role("button", name="Copy as Markdown").press("Enter")
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").startswith("### ≠ different\n")
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="HTML page")).to_be_hidden()
    file = Path(download.value.path())
    page.context.set_offline(True)
    offline = page.context.new_page()
    offline.goto(file.rename(file.with_name("page.html")).as_uri())
    offline.wait_for_selector(VIEWER)
    expect(offline.locator(VIEWER)).to_contain_text("down1")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_menu_is_within_the_window_of_a_phone(visit, scheme):
    page = visit(viewport={"width": 390, "height": 800}, color_scheme=scheme)
    compare_a_sample(page)
    open_more(page, "Export")
    box = page.get_by_role("button", name="Copy as Markdown").locator("..").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    if AXE.exists():
        assert problems(page) == []


@pytest.mark.slow
def test_one_button_allows_code_on_ones_own_machine(chromium, tmp_path):
    script = tmp_path / "net.py"
    script.write_text("import torch\n\n\nclass Net(torch.nn.Module):\n    pass\n")
    with Workbench(tmp_path / "bench", settings="hosts = []\n") as bench:
        context = chromium.new_context(base_url=bench.url)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.goto("/")
        page.get_by_label("Files of one net or more", exact=True).set_input_files(script)
        side = page.get_by_role("region", name="Net A")
        expect(side).to_contain_text("contains code (PyTorch)", timeout=60_000)
        expect(side).to_contain_text("press Read files with code, or export the net to ONNX")
        expect(side).not_to_contain_text("not allowed here")
        side.get_by_role("button", name="Read files with code").press("Enter")
        expect(side).to_contain_text("Reading the net", timeout=60_000)
        expect(side).not_to_contain_text("Reading the net", timeout=120_000)
        expect(side).not_to_contain_text("not allowed here")
        page.goto("/help/")
        expect(page.get_by_text("until you press")).to_be_visible()
        context.close()
