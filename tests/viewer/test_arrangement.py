"""The parts of the page: closed and opened, sized anew, on a phone, and both nets as one graph."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import pairwise

import onnx_ir as ir
import pytest

import netweave
from tests.viewer import nets
from tests.viewer.conftest import SVG
from tests.web.browser.visiting import problems

pytestmark = [pytest.mark.browser, pytest.mark.multi]

BOX = 184
"""Width of a box in the layout's pixels."""


def place(page, selector: str):
    return page.locator(selector).bounding_box()


def transform(page) -> list[float]:
    """Return scale and place of what the first visible pane shows."""
    return page.evaluate(
        "() => { const c = [...document.querySelectorAll('.nw-canvas')].find(c => c.offsetParent);"
        "return [c.__zoom.k, c.__zoom.x, c.__zoom.y] }"
    )


PANES = """
[...document.querySelectorAll('.nw-pane')].map(pane => pane.getBoundingClientRect()).filter(p => p.width)
"""


def test_the_list_and_the_details_close_by_button_and_key_and_stay_closed(show, faulty):
    shown = show(faulty)
    page = shown.page
    before = place(page, ".nw-stage")["width"]
    page.get_by_role("button", name="Details (right bracket)").click()
    assert not page.locator(".nw-inspector").is_visible()
    assert place(page, ".nw-stage")["width"] == pytest.approx(before + 356, abs=1)
    shown.press("[")
    assert not page.locator(".nw-sidebar").is_visible()
    assert place(page, ".nw-stage")["width"] == pytest.approx(1280, abs=1)
    shown.press("/")
    assert page.locator(".nw-sidebar").is_visible(), "a search opens the list"
    shown.press("Escape", "]")
    assert page.locator(".nw-inspector").is_visible()
    assert shown.errors == []


def test_a_resized_window_shows_the_whole_width_again(show, residual_pair):
    shown = show(residual_pair)
    page = shown.page
    shown.press("0")
    wide = transform(page)
    page.set_viewport_size({"width": 2400, "height": 900})
    page.wait_for_timeout(200)
    assert transform(page)[0] >= wide[0]
    pane = place(page, ".nw-pane[data-side='0']")["width"]
    scale, left, _ = transform(page)
    width = float(shown.svg().findall(f"{SVG}svg")[0].get("width")) - 48
    assert left == pytest.approx((pane - width * scale) / 2, abs=2), "the net stands in the middle"
    page.set_viewport_size({"width": 1280, "height": 720})
    page.wait_for_timeout(200)
    assert transform(page) == pytest.approx(wide, abs=1)


def test_the_selected_layer_stays_in_sight_when_the_window_shrinks(show, faulty):
    shown = show(faulty, hash_="#layer=A:prob")
    page = shown.page
    page.set_viewport_size({"width": 1280, "height": 400})
    page.wait_for_timeout(200)
    layers = shown.svg()
    assert layers is not None
    scale, _, top = transform(page)
    y = page.evaluate("() => Number(document.querySelector('.nw-canvasbox').clientHeight)")
    # prob is the last layer: its box ends where the drawing does
    end = float(layers.get("height")) - 2 * 24 - 34
    assert 0 < end * scale + top - 60 * scale < y


def test_both_nets_are_one_graph_in_the_overlay(show, faulty):
    shown = show(faulty)
    page = shown.page
    shown.press("v")
    panes = page.locator(".nw-pane:visible")
    assert panes.count() == 1
    assert panes.get_attribute("aria-label") == "Both nets"
    page.locator(".nw-menu > summary").click()
    assert page.get_by_role("button", name="Both nets as one graph").get_attribute("aria-pressed") == "true"
    page.keyboard.press("Escape")
    assert not page.get_by_role("button", name="Both nets as one graph").is_visible()
    texts = [element.text for element in shown.svg().iter(f"{SVG}text") if element.text]
    assert texts.count("conv1") == 1, "what both have is drawn once"
    assert "relu2" in texts, "so is what one of them has"
    assert any("≠" in text and "k3" in text for text in texts), "settings that differ stand side by side"
    page.locator(".nw-canvas:visible").focus()
    shown.press("Escape", "ArrowDown", "ArrowDown")
    assert shown.selected[0] == "conv1"
    shown.press("v")
    assert page.locator(".nw-pane:visible").count() == 2
    assert shown.errors == []


def test_the_overlay_has_what_only_one_net_has_in_its_colour(show, faulty):
    shown = show(faulty)
    colours = {
        name: shown.page.evaluate(
            "name => getComputedStyle(document.querySelector('.nw-viewer')).getPropertyValue(name)", name
        ).strip()
        for name in ("--nw-only-a", "--nw-only-a-soft")
    }
    shown.press("v")
    drawn = shown.svg()
    strokes = {rect.get("stroke") for rect in drawn.iter(f"{SVG}rect")}
    fills = {rect.get("fill") for rect in drawn.iter(f"{SVG}rect")}
    assert colours["--nw-only-a"] in strokes
    assert colours["--nw-only-a-soft"] in fills


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_has_the_verdict_the_differences_and_a_search(show, faulty, dark):
    shown = show(faulty, dark=dark, viewport=(390, 844))
    page = shown.page
    assert page.locator(".nw-header [data-verdict]").inner_text().endswith("Different")
    rows = page.locator(".nw-row")
    assert rows.count() == 3
    page.get_by_role("searchbox").fill("relu2")
    rows.first.click()
    finding = page.locator(".nw-finding")
    assert finding.is_visible(), "what is chosen in the list is explained"
    assert not page.locator(".nw-sidebar").is_visible()
    page.get_by_role("button", name="Nets", exact=True).click()
    canvas = page.locator(".nw-canvas:visible")
    assert canvas.count() == 1, "both nets are one graph where there is no room for two"
    assert canvas.bounding_box()["width"] > 300
    page.get_by_role("button", name="Differences", exact=True).click()
    assert rows.first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert problems(page) == []
    assert shown.errors == []


@pytest.mark.parametrize("width", [390, 900, 1440, 1920])
def test_nothing_lies_over_anything_else(show, faulty, width):
    shown = show(faulty, viewport=(width, 900))
    page = shown.page
    for selector in (".nw-tools button", ".nw-tools summary", ".nw-chip-large", ".nw-sentence"):
        for element in page.locator(selector).all():
            if not element.is_visible() or element.bounding_box()["width"] <= 1:
                continue  # a heading that is heard alone
            assert element.evaluate("e => e.scrollWidth <= e.clientWidth + 1"), element.inner_text()
    overlapping = page.evaluate(
        """() => {
          const all = [...document.querySelectorAll('.nw-header :is(button, summary, h1)')]
            .filter(e => e.checkVisibility() && e.offsetWidth > 1)
            .map(e => [e.textContent, e.getBoundingClientRect()]);
          return all.flatMap(([a, x], i) => all.slice(i + 1).filter(([, y]) =>
            x.left < y.right - 1 && y.left < x.right - 1 && x.top < y.bottom - 1 && y.top < x.bottom - 1
          ).map(([b]) => [a, b]));
        }"""
    )
    assert overlapping == []
    assert place(page, ".nw-header")["height"] <= 56


@pytest.mark.parametrize("width", [768, 1000])
def test_in_a_narrow_window_the_details_are_a_drawer(show, faulty, width):
    shown = show(faulty, viewport=(width, 900))
    page = shown.page
    details, nets_width = page.locator(".nw-inspector"), place(page, ".nw-stage")["width"]
    assert not details.is_visible()
    assert min(pane["width"] for pane in page.evaluate(PANES)) > 240
    page.locator(".nw-row").first.click()
    assert details.is_visible()
    assert place(page, ".nw-stage")["width"] == nets_width, "they lie over the nets"
    shown.press("]")
    assert not details.is_visible()
    assert shown.errors == []


def test_the_browser_leads_back_through_the_findings(show, faulty):
    shown = show(faulty)
    page = shown.page
    first = shown.selected
    shown.press("n", "n")
    assert shown.selected != first
    page.go_back()
    page.wait_for_timeout(200)
    second = shown.selected
    page.go_back()
    page.wait_for_timeout(200)
    assert shown.selected == first != second
    page.go_forward()
    page.wait_for_timeout(200)
    assert shown.selected == second


def test_what_was_changed_in_every_block_is_one_row_that_leads_to_all_places(show):
    a, b = nets.residual(4), nets.residual(4)
    for node in [node for node in b.nodes if node.op_type == "Conv"][::2]:
        node.attributes.add(ir.AttrInt64s("dilations", [2, 2]))
        node.attributes.add(ir.AttrInt64s("pads", [2] * 4))
    shown = show(netweave.compare(a, b))
    page = shown.page
    assert page.locator(".nw-row").count() == 1
    assert page.locator(".nw-row-note").inner_text().startswith("4 places: ")
    first = shown.selected
    places = page.locator(".nw-places button")
    assert places.count() == 3
    places.last.click()
    page.wait_for_timeout(200)
    assert shown.selected != first
    shown.press("Escape")
    assert page.locator(".nw-causes li").inner_text().endswith("in 4 places")
    page.locator(".nw-causes button").click()
    page.wait_for_timeout(200)
    assert shown.selected == first
    assert shown.errors == []


def test_on_paper_the_verdict_stands_in_full_above_the_list_the_nets_and_the_details(show, faulty):
    shown = show(faulty)
    page = shown.page
    page.emulate_media(media="print")
    parts = [place(page, name) for name in (".nw-sentence", ".nw-sidebar", ".nw-stage", ".nw-inspector")]
    assert all(upper["y"] + upper["height"] <= lower["y"] + 1 for upper, lower in pairwise(parts))
    assert page.locator(".nw-sentence").evaluate("e => e.scrollHeight <= e.clientHeight + 1")
    assert not page.locator(".nw-tools:visible").count()


def test_labels_of_blocks_in_blocks_do_not_overprint(show, residual_pair):
    shown = show(residual_pair)
    shown.page.get_by_role("button", name="Expand all blocks").click()
    drawn = shown.svg()
    column = drawn.findall(f"{SVG}svg")[0]
    labels = [
        (float(text.get("x")), float(text.get("y")), text.text)
        for text in column.iter(f"{SVG}text")
        if text.get("font-size") == "10" and text.get("font-weight") == "500"
    ]
    assert len(labels) > 3
    lines: dict[int, list[tuple[float, str]]] = {}
    for x, y, text in labels:
        lines.setdefault(round(y / 8), []).append((x, text))
    for line in lines.values():
        line.sort()
        for (x, text), (following, _) in pairwise(line):
            assert x + 5 * len(text) <= following, line


def test_a_type_is_written_in_full_beside_its_settings(show, port):
    shown = show(port)
    texts = [element.text for element in shown.svg().iter(f"{SVG}text") if element.text]
    assert texts.count("Convolution") >= 4
    assert not [text for text in texts if text.startswith("Convol") and text.endswith("…")]


def test_the_svg_of_the_overlay_is_a_valid_picture(show, port):
    shown = show(port)
    shown.press("v")
    assert ET.tostring(shown.svg()).startswith(b"<")
    assert shown.saved("Save as PNG").startswith(b"\x89PNG")
