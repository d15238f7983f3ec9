"""The heat map: every measure with its scale, and the user's own data laid over the nets."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

import netweave
from tests.viewer.conftest import SVG
from tests.viewer.nets import HOSTILE
from tests.web.browser.visiting import problems

pytestmark = [pytest.mark.browser, pytest.mark.multi]

DATA = "Your own data, JSON or CSV"


def choose(page, name: str, content: str, answer: str) -> None:
    """Choose a file of one's own, and wait until the page says `answer` about it."""
    page.get_by_label(DATA, exact=True).set_input_files(
        {"name": name, "mimeType": "application/octet-stream", "buffer": content.encode()}
    )
    expect(page.locator(".nw-toast")).to_contain_text(answer)


def texts(shown) -> list[str]:
    return [element.text for element in shown.svg().iter(f"{SVG}text") if element.text]


@pytest.mark.parametrize("dark", [False, True])
def test_each_measure_has_a_scale(show, port, dark):
    shown = show(port, dark=dark)
    page = shown.page
    legend = page.get_by_role("complementary", name="Scale of the heat map")
    assert not legend.is_visible()
    page.locator(".nw-menu > summary").click()
    select = page.get_by_label("Heat map of the layers")
    measures = select.locator("option").all_inner_texts()[1:]
    assert measures == [
        *("Parameters", "Multiply-adds", "Activation bytes", "Bytes moved", "Multiply-adds per byte"),
        "Value error",
    ]
    for measure in measures:
        select.select_option(label=measure)
        assert legend.locator("b").inner_text() == measure
        assert legend.locator(".nw-heatticks span").count() == 3
        assert "scale" in legend.inner_text()
    ticks = legend.locator(".nw-heatticks").inner_text().split()
    assert ticks == ["1e-8", "1e-4", "1"]
    assert problems(page) == []
    boxes = [
        page.locator(selector).first.bounding_box() for selector in (".nw-canvas:visible", ".nw-heatlegend")
    ]
    assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"] + 1, "the scale covers nothing of the nets"
    select.select_option("")
    assert not legend.is_visible()


def test_the_figures_of_a_layer_are_those_of_the_net(show, port):
    shown = show(port)
    shown.heat("parameters")
    # conv1 has 16 filters of 3 x 3 x 3, without a bias
    assert "432" in texts(shown)


def test_own_data_are_laid_over_both_nets_by_name(show, port):
    shown = show(port)
    page = shown.page
    results = {"conv1": {"value": 0.25}, "down1": {"value": 3, "bgColor": "#00ff00"}, "nothing": {"value": 9}}
    choose(page, "latency.json", json.dumps({"results": results}), "2 of 3 names are in the nets.")
    legend = page.get_by_role("complementary", name="Scale of the heat map")
    assert legend.locator("b").inner_text() == "latency.json"
    assert legend.locator(".nw-heatticks").inner_text().split() == ["0.25", "4.625", "9"]
    drawn = shown.svg()
    shown_texts = [element.text for element in drawn.iter(f"{SVG}text") if element.text]
    assert {"0.25", "3"} <= set(shown_texts)
    assert any("0, 255, 0" in (rect.get("fill") or "") for rect in drawn.iter(f"{SVG}rect"))
    shown.heat("multiply_adds")
    shown.heat(label="Own: latency.json")
    assert legend.locator("b").inner_text() == "latency.json"
    assert problems(page) == []


def test_own_data_in_a_table_are_for_operators_as_well(show, port):
    shown = show(port)
    node = port.a.nodes[0].name
    choose(shown.page, "times.csv", f"node,ms\n{node},12.5\n", "times.csv: ")
    assert "12.5" in texts(shown), "a layer has the value of its operator"
    shown.press("o")
    pressed = shown.page.locator('[aria-label^="Show operators"]')
    expect(pressed).to_have_attribute("aria-pressed", "true")  # the policy of the page forbids to poll a text
    assert "12.5" in texts(shown)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", "{", "x.json cannot be shown. It is not valid JSON"),
        ("x.csv", "conv1\n", "Line 1 has no value: “conv1”"),
        ("x.json", "{}", "It has no values"),
        ("x.csv", "other,1\n", "none of its 1 names is a layer or operator here; the first is “other”"),
    ],
)
def test_own_data_that_cannot_be_shown_are_explained(show, port, name, content, message):
    shown = show(port)
    choose(shown.page, name, content, message)
    assert not shown.page.get_by_role("complementary", name="Scale of the heat map").is_visible()


def test_hostile_own_data_are_text(show, port):
    shown = show(port)
    results = {
        "conv1": {"value": HOSTILE, "bgColor": "url(http://example.invalid/x)"},
        "__proto__": {"value": 1},
        HOSTILE: {"value": 1},
    }
    choose(shown.page, f"{HOSTILE[:60]}.json", json.dumps({"results": results}), " of 3 names")
    assert shown.page.evaluate("window.pwned") is None
    assert shown.errors == []
    assert [url for url in shown.requests if not url.startswith(("file:", "blob:", "data:"))] == []


def test_heat_is_chosen_by_keyboard_alone(show, port):
    shown = show(port)
    own = {"name": "a.csv", "mimeType": "text/csv", "buffer": b"conv1,7\n"}
    # asked for before any key: the browser does not always have it in time for a key right after it
    shown.page.on("filechooser", lambda chooser: chooser.set_files(own))
    shown.press("h")
    legend = shown.page.get_by_role("complementary", name="Scale of the heat map")
    assert legend.locator("b").inner_text() == "Parameters"
    shown.page.locator(".nw-menu > summary").focus()
    shown.page.keyboard.press("Enter")
    # the menu takes the focus when the browser says that it is open, a moment after it is
    expect(shown.page.locator(".nw-menu[open] :focus")).to_have_count(1)
    shown.page.get_by_role("button", name="Your own data on the nets").focus()
    shown.page.keyboard.press("Enter")
    expect(legend.locator("b")).to_have_text("a.csv")


def test_values_of_a_group_are_shown_with_the_worst_place(show, example):
    comparison = netweave.compare(example / "leaves.prototxt", example / "faulty.prototxt", keep_values=True)
    shown = show(comparison, hash_="#layer=A:bn1")
    page = shown.page
    group = next(group for group in comparison.groups if group.layers_a == ("bn1",))
    sample, channel, row, column = group.values.place
    details = page.get_by_role("complementary", name="Details")
    assert f"sample {sample}, channel {channel}, row {row}, column {column}" in details.inner_text()
    maps = details.locator("canvas.nw-map")
    assert maps.count() == 3
    assert [label.split(":")[0] for label in maps.evaluate_all("m => m.map(e => e.ariaLabel)")] == [
        *("A", "B", "A − B"),
    ]
    pixels = [
        maps.nth(index).evaluate("m => [...m.getContext('2d').getImageData(0, 0, m.width, m.height).data]")
        for index in range(3)
    ]
    assert len({tuple(pixel) for pixel in pixels}) == 3
    assert details.get_by_role("img", name="Largest difference by channel").locator("rect").count() == 16
    assert problems(page) == []
    assert shown.errors == []
