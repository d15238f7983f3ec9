"""The page in a browser: what a person sees, clicks and types."""

from __future__ import annotations

import re
import struct
from urllib.parse import quote

import pytest

from netweave import api
from netweave.comparison import Comparison, Evidence, Status, Verdict
from netweave.viewer import comparison_document, document_rows, page
from tests.viewer import nets
from tests.viewer.conftest import SVG

pytestmark = pytest.mark.browser


def texts(svg) -> list[str]:
    return [element.text or "" for element in svg.iter(f"{SVG}text")]


def heights(svg) -> list[dict[str, float]]:
    """Return the height of each text, by text, for each of the two panes."""
    return [
        {element.text: float(element.get("y")) for element in pane.iter(f"{SVG}text")}
        for pane in svg.findall(f"{SVG}svg")
    ]


def test_the_verdict_and_the_first_difference_are_there_at_once(show, port):
    shown = show(port)
    page = shown.page
    assert page.locator(".nw-header .nw-chip").inner_text().split() == ["≠", "Different"]
    assert "pool1 / down1" in page.locator("h1").inner_text()
    assert shown.selected == ["pool1", "down1"]
    finding = page.get_by_role("region", name="Finding")
    assert "pad=(0, 0) and pooling_convention=full" in finding.inner_text()
    assert "leaves-symbol.json:15" in finding.inner_text()
    rows = page.locator("tr.nw-differs th").all_inner_texts()
    assert {row.split("≠")[0].strip() for row in rows} >= {"pads", "ceil_mode"}
    assert not shown.errors


def test_a_document_of_an_earlier_version_looks_the_same(show, faulty, monkeypatch):
    """The workbench keeps documents of version 2, which had an object for each row."""
    shown = show(faulty)
    found = [shown.page.locator("body").inner_text()]
    whole = comparison_document(faulty)
    monkeypatch.setattr(page, "comparison_document", lambda _: document_rows(whole) | {"version": 2})
    before = show(faulty)
    found.append(before.page.locator("body").inner_text())
    for _ in range(3):
        for each, each_shown in enumerate((shown, before)):
            each_shown.press("n")
            found[each] += each_shown.page.locator(".nw-inspector").inner_text()
    assert found[0] == found[1]
    assert "Stored arrays" in found[0]
    assert not shown.errors
    assert not before.errors


def test_padding_is_drawn_for_both_sides(show, port):
    figures = show(port).page.locator(".nw-figure")
    assert figures.count() == 2
    words = figures.locator("figcaption").all_inner_texts()
    # 32 pixels, windows of 3 by steps of 2: Caffe takes a 16th window, which overhangs; MXNet pads
    assert "padding 0" in words[0]
    assert "16 windows, the last reaches 1 beyond" in words[0]
    assert "padding 1, 16 windows" in words[1]
    assert figures.nth(0).locator(".nw-cell-beyond").count() > 0
    assert figures.nth(0).locator(".nw-cell-padding").count() == 0
    assert figures.nth(1).locator(".nw-cell-padding").count() > 0


def test_what_belongs_together_stands_at_one_height(show, port):
    a, b = heights(show(port).svg())
    for name_a, name_b in (("conv1", "stem"), ("pool1", "down1"), ("fc", "head"), ("prob", "softmax")):
        assert a[name_a] == b[name_b]
    assert a["conv1"] < a["pool1"] < a["fc"]


def test_next_and_previous_step_through_the_differences(show, faulty):
    shown = show(faulty)
    first = shown.selected
    total = int(shown.page.locator(".nw-position").inner_text().split("/")[1])
    assert total >= 3
    seen = [first]
    for _ in range(total - 1):
        shown.press("n")
        seen.append(shown.selected)
    assert len({tuple(names) for names in seen}) == total
    shown.press("n")
    assert shown.selected == first
    shown.press("p")
    assert shown.selected == seen[-1]
    assert shown.page.locator(".nw-position").inner_text() == f"{total} / {total}"


def test_search_finds_names_types_shapes_and_lines(show, port):
    shown = show(port)
    page = shown.page
    rows = page.locator(".nw-row .nw-row-title")
    for query, found in (
        ("conv1", ["conv1 · stem"]),
        ("pooling", ["pool1 · down1", "pool2 · down2"]),
        ("16x16x16", ["pool1 · down1", "conv2 · body"]),
        ("leaves.prototxt:11", ["pool1 · down1"]),
        ("activation body", ["relu2 · body_relu"]),
        ("num_output=10", ["fc · head"]),
        ("kernel_shape=3 strides=2", ["pool1 · down1"]),
        ("nothing of the kind", []),
    ):
        page.get_by_role("searchbox").fill(query)
        page.wait_for_timeout(80)
        assert [re.sub(r"\s+", " ", text) for text in rows.all_inner_texts()] == found
    page.get_by_role("searchbox").fill("")
    page.get_by_role("listbox").focus()
    shown.press("/")
    page.keyboard.type("body_relu")
    shown.press("Enter")
    assert shown.selected == ["relu2", "body_relu"]


def test_blocks_fold_and_unfold(show):
    shown = show(nets.residual(12))
    # the input and twelve modules of one kind, which one screen holds
    assert shown.num_boxes == 1 + 12
    assert {"12 × block", "block0", "block11"} <= set(texts(shown.svg()))
    shown.press("/")
    shown.page.keyboard.type("block7/conv2")
    shown.press("Enter")
    shown.page.wait_for_timeout(200)
    # the run of twelve is open, and of its blocks the one that was looked for
    assert shown.num_boxes == 1 + 11 + 3
    assert shown.selected == ["block7/conv2"]
    shown.press("f")
    assert shown.num_boxes == 1 + 12
    assert shown.selected == ["block7"]
    shown.page.get_by_role("button", name="Expand all blocks").click()
    shown.page.wait_for_timeout(200)
    assert shown.num_boxes == 1 + 12 * 3
    assert shown.selected == ["block7/conv2"]
    shown.page.get_by_role("button", name="Collapse all blocks", exact=True).click()
    shown.page.wait_for_timeout(200)
    assert shown.num_boxes == 1 + 12
    assert shown.selected == ["block7"]


def test_a_difference_is_not_folded_away(show):
    a, b = nets.residual(120, name="a"), nets.residual(120, name="b")
    shown = show(nets.compared(a, b, {"block77/conv2": (Status.DIFFERENT, Evidence.WEIGHTS)}))
    assert shown.num_boxes < 160
    assert shown.selected == ["block77/conv2", "block77/conv2"]
    # the modules before and behind it are one box each, its own is open
    assert {"77 × block", "42 × block", "block77", "conv2"} <= set(texts(shown.svg()))


def test_a_link_leads_to_a_layer(show, port):
    shown = show(port, hash_="#layer=B:body_relu")
    assert shown.selected == ["relu2", "body_relu"]
    shown.press("o")
    assert [name.split("/")[0] for name in shown.selected] == ["relu2", "body_relu"]
    shown.press("n")
    assert shown.page.url.split("#")[1] == "operator=B:down1%2FMaxPool"
    shown.page.evaluate("location.hash = '#layer=A:conv2'")
    shown.page.wait_for_timeout(200)
    assert shown.selected == ["conv2", "body"]


def test_a_link_to_a_layer_in_a_fold_opens_it(show):
    shown = show(nets.residual(100), hash_=f"#layer=A:{quote('block50/conv1', safe='')}")
    assert shown.selected == ["block50/conv1"]


def test_both_views_show_their_own(show, port):
    shown = show(port)
    assert "Pooling" in texts(shown.svg())
    shown.view("Show operators")
    shown.page.wait_for_timeout(200)
    found = texts(shown.svg())
    assert "MaxPool" in found
    assert "Pooling" not in found


def test_pictures_are_saved(show, port):
    shown = show(port)
    svg = shown.svg()
    assert {"conv1", "stem", "pool1", "down1", "leaves"} <= set(texts(svg))
    png = shown.saved("Save as PNG")
    assert png.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", png[16:24])
    assert width == pytest.approx(2 * float(svg.get("width")), abs=2)
    assert height == pytest.approx(2 * float(svg.get("height")), abs=2)


def test_heat_writes_the_amounts(show, port):
    shown = show(port)
    shown.heat("Multiply-adds")
    # conv1: 16 filters of 27 weights at 32 x 32 places; fc: 10 of 32 x 8 x 8
    assert {"442 k", "20.5 k"} <= set(texts(shown.svg()))
    shown.press("h")
    assert "65.5 kB" in texts(shown.svg())


def test_a_guess_never_looks_like_a_fact(show):
    a, b = nets.residual(3, name="a"), nets.residual(3, name="b")
    guess = {"block1/conv1": (Status.EQUAL, Evidence.GUESS)}
    shown = show(nets.compared(a, b, guess), hash_="#layer=A:block1%2Fconv1")
    assert "paired by a guess" in shown.page.locator(".nw-chips").inner_text()
    row = shown.page.locator('.nw-legend [data-status="GUESS"]')
    assert row.inner_text().split() == ["?", "paired", "by", "a", "guess", "1"]
    marks = [mark for mark in texts(shown.svg()) if mark in {"?", "="}]
    assert marks.count("?") == 2


def test_a_value_that_many_read_is_named_not_drawn(show):
    shown = show(nets.shared(100))
    shown.page.get_by_role("button", name="Expand all blocks").click()
    shown.page.wait_for_timeout(200)
    svg = shown.svg()
    assert texts(svg).count("◂ mask") > 80
    assert {float(column.get("width")) < 700 for column in svg.findall(f"{SVG}svg")} == {True}


def test_what_only_one_net_has_leaves_a_gap_in_the_other(show, faulty):
    found = texts(show(faulty).svg())
    assert "not in B" in found
    assert found.count("relu2") == 1


def test_a_comparison_from_a_file_shows_its_layers(show, port, tmp_path):
    api.save_comparison(port, tmp_path / "found.json")
    shown = show(api.open_comparison(tmp_path / "found.json"))
    assert shown.selected == ["pool1", "down1"]
    assert shown.page.locator("[title^='Show operators']").count() == 0
    a, b = heights(shown.svg())
    assert a["pool1"] == b["down1"]
    assert not shown.errors


def test_nets_that_could_not_be_compared_stand_beside_each_other(show, port):
    sentence = "not decidable: they cannot be paired"
    shown = show(Comparison(port.a, port.b, Verdict.UNDECIDED, sentence))
    assert shown.page.locator(".nw-header .nw-chip").inner_text().split() == ["?", "Not", "decidable"]
    found = texts(shown.svg())
    assert {"conv1", "stem"} <= set(found)
    assert not {"=", "≠", "·", "not in B"} & set(found)
