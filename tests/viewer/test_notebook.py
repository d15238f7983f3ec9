"""Nets and comparisons draw themselves in notebooks and in pages of other people, and stay in their place."""

from __future__ import annotations

import pytest

from netweave.viewer import page as page_module
from tests.viewer import nets


def test_without_the_front_end_and_for_large_nets_there_is_the_table(monkeypatch):
    net = nets.residual(1)
    monkeypatch.setattr(page_module, "check_front_end", lambda: None)
    monkeypatch.setattr(page_module, "embedded_page", lambda document: '<p id="page">"drawn"</p>')
    shown = net._repr_html_()
    assert 'srcdoc="&lt;p id=&quot;page&quot;&gt;&quot;drawn&quot;' in shown
    assert "allow-same-origin" not in shown
    assert "<details><summary>As a table</summary>" in shown
    monkeypatch.setattr(page_module, "MAX_LAYERS", 2)
    table = net._repr_html_()
    assert "iframe" not in table
    assert table in shown


@pytest.fixture
def other_page(front_end, chromium, tmp_path):
    """A page of somebody else's, with fields and keys of its own, in which something is shown."""
    contexts = []

    def open_page(content: str):
        file = tmp_path / "theirs.html"
        file.write_text(
            f"<!doctype html><html lang=en><title>theirs</title><input aria-label=theirs>{content}"
            "<script>keys = []; addEventListener('keydown', e => keys.push(e.key))</script>",
            encoding="utf-8",
        )
        context = chromium.new_context(viewport={"width": 1280, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.errors = []
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("console", lambda m: page.errors.append(m.text) if m.type == "error" else None)
        page.goto(file.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.browser
def test_a_comparison_draws_itself_in_a_notebook(other_page, port):
    page = other_page(port._repr_html_())
    frame = page.frame_locator("iframe")
    frame.locator(".nw-viewer[data-state=shown]").wait_for()
    assert frame.locator(".nw-header .nw-chip").inner_text().split() == ["≠", "Different"]
    frame.locator(".nw-row").first.click()
    frame.locator(".nw-viewer").press("n")
    frame.locator(".nw-viewer").press("c")
    frame.get_by_text("This drawing has no address of its own.").wait_for()
    assert page.evaluate("location.hash") == ""
    page.get_by_text("As a table").click()
    assert page.get_by_role("cell", name="pool1").first.is_visible()
    assert page.errors == []


@pytest.mark.browser
def test_the_web_component_leaves_the_page_around_it_alone(other_page, port, tmp_path):
    import json

    from netweave.viewer import comparison_document
    from netweave.viewer.page import built

    document = json.dumps(comparison_document(port)).replace("</", "<\\/")
    page = other_page(
        f"<style>{built('viewer.css')}</style><h1>Ours</h1>"
        f"<script>fetch = async () => new Response({json.dumps(document)})</script>"
        f"<script>{built('viewer.js')}</script>"
        "<netweave-viewer src=a embedded style='height: 300px'></netweave-viewer>"
        "<netweave-viewer src=b embedded style='height: 300px'></netweave-viewer>"
    )
    viewers = page.locator("netweave-viewer[data-state=shown]")
    viewers.nth(1).wait_for()
    before = viewers.nth(1).locator(".nw-inspector h2").first.inner_text()
    page.get_by_label("theirs").focus()
    page.keyboard.press("n")
    viewers.nth(0).locator("canvas[role=application]").first.focus()
    page.keyboard.press("n")
    assert viewers.nth(1).locator(".nw-inspector h2").first.inner_text() == before
    assert page.evaluate("[location.hash, keys]") == ["", ["n", "n"]]
    assert page.errors == []
