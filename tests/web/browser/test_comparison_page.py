"""The page of a comparison in the workbench: the viewer in it, stepped through, searched, folded, sent on."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.web.browser.visiting import VIEWER, compare, compare_a_sample, drop, open_more, problems, selected

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = [pytest.mark.browser, pytest.mark.multi]


@pytest.fixture
def faulty(page, tmp_path):
    """The page of a comparison with several differences: the sample's net, and the same with mistakes."""
    from tests.viewer import nets

    nets.write_example(tmp_path)
    nets.write_faulty(tmp_path)
    page.goto("/")
    drop(page, "A", tmp_path / "leaves.prototxt", tmp_path / "leaves.caffemodel")
    drop(page, "B", tmp_path / "faulty.prototxt", tmp_path / "faulty.caffemodel")
    compare(page)
    return page


def test_every_difference_is_stepped_through_by_button_and_key(faulty):
    position = faulty.locator(".nw-position")
    total = int(position.inner_text().split("/")[1])
    assert total >= 3
    seen = [tuple(selected(faulty))]
    for _ in range(total - 1):
        faulty.get_by_role("button", name="Next difference").click()
        seen.append(tuple(selected(faulty)))
    assert len(set(seen)) == total
    faulty.keyboard.press("n")
    expect(position).to_have_text(f"1 / {total}")
    faulty.keyboard.press("p")
    expect(position).to_have_text(f"{total} / {total}")


def test_a_layer_is_searched_and_its_address_leads_back_to_it(page):
    address = compare_a_sample(page)
    page.keyboard.press("/")
    page.keyboard.type("body_relu")
    page.keyboard.press("Enter")
    expect(page.locator(".nw-inspector .nw-title h2")).to_have_text(["relu2", "body_relu"])
    assert page.url.startswith(f"{address}#layer=")
    page.reload()
    page.wait_for_selector(VIEWER)
    assert selected(page) == ["relu2", "body_relu"]


def test_the_verdict_names_the_cause_the_place_and_the_fix(page):
    compare_a_sample(page)
    finding = page.get_by_role("region", name="Finding")
    expect(finding).to_contain_text("pad=(0, 0) and pooling_convention=full")
    expect(finding).to_contain_text("leaves-symbol.json:15")


def blocks(count: int) -> str:
    """Return a net for Caffe of equal blocks, each with a way around it."""
    lines = ["name: 'tower'", "layer { name: 'data' type: 'Input' top: 'x0'"]
    lines.append("  input_param { shape { dim: 1 dim: 4 dim: 8 dim: 8 } } }")
    for n in range(count):
        for name, bottom in (("a", f"x{n}"), ("b", f"a{n}")):
            lines.append(f"layer {{ name: '{name}{n}' type: 'Convolution'")
            lines.append(f"  bottom: '{bottom}' top: '{name}{n}'")
            lines.append("  convolution_param { num_output: 4 kernel_size: 3 pad: 1 } }")
        lines.append(f"layer {{ name: 'add{n}' type: 'Eltwise'")
        lines.append(f"  bottom: 'x{n}' bottom: 'b{n}' top: 'x{n + 1}' }}")
    return "\n".join(lines)


def test_blocks_fold_and_unfold(page, tmp_path):
    (tmp_path / "tower.prototxt").write_text(blocks(100))
    page.goto("/")
    for letter in "AB":
        drop(page, letter, tmp_path / "tower.prototxt")
    compare(page)
    boxes = page.locator(VIEWER)
    assert int(boxes.get_attribute("data-boxes")) < 301  # it opens folded
    page.get_by_role("button", name="Expand all blocks").click()
    expect(boxes).to_have_attribute("data-boxes", "301")
    page.get_by_role("button", name="Collapse all blocks", exact=True).click()
    expect(boxes).to_have_attribute("data-boxes", "2")
    page.keyboard.press("/")
    page.keyboard.type("add50")
    page.keyboard.press("Enter")
    # the run of a hundred is open, and of its blocks the one that was looked for
    expect(boxes).to_have_attribute("data-boxes", str(1 + 99 + 3))
    assert selected(page) == ["add50", "add50"]


def test_pictures_are_exported(page):
    compare_a_sample(page)
    page.locator(".nw-menu > summary").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as SVG").click()
    texts = [element.text for element in ET.parse(download.value.path()).iter() if element.text]
    assert {"pool1", "down1"} <= set(texts)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as PNG").click()
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")


def test_a_verdict_is_read_by_keyboard_alone(page):
    compare_a_sample(page)
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('role')") == "application":
            break
    page.keyboard.press("n")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Details"
    assert selected(page) == ["pool1", "down1"]
    expect(page.locator(".nw-viewer > [aria-live=polite]")).to_have_text(
        "A: pool1, Pooling; B: down1, Pooling; different"
    )


def test_the_page_of_a_net_shows_it_and_leads_to_its_comparison(page):
    compare_a_sample(page)
    open_more(page, "Nets")
    page.get_by_role("link", name="leaves.prototxt", exact=True).click()
    page.wait_for_selector(VIEWER)
    expect(page.get_by_text("Caffe · 12 layers · 25,627 parameters")).to_be_visible()
    expect(page.locator("canvas[role=application]")).to_have_count(1)
    page.locator("summary", has_text="Compare").click()
    page.get_by_role("link", name="Compare as A").click()
    expect(page.get_by_role("region", name="Net A")).to_contain_text("Caffe net, recognised")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nets_without_weights_are_not_shown_as_equal(visit, tmp_path, scheme):
    from tests.viewer import nets

    nets.write_example(tmp_path)
    page = visit(color_scheme=scheme)
    page.goto("/")
    for letter in "AB":
        drop(page, letter, tmp_path / "leaves.prototxt")
    compare(page)
    name, mark = "same structure, weights not compared", "≟"
    chip = page.locator(".nw-header [data-verdict]")
    expect(chip).to_have_attribute("data-verdict", "structure")
    expect(chip).to_have_text(f"{mark}{name.capitalize()}")
    colours = {
        key: page.locator(f".nw-sidebar [data-status={key}] .nw-mark").first.evaluate(
            "mark => getComputedStyle(mark).color"
        )
        for key in ("STRUCTURE", "EQUAL")
    }
    assert colours["STRUCTURE"] != colours["EQUAL"]
    assert chip.evaluate("chip => getComputedStyle(chip).color") == colours["STRUCTURE"]
    assert problems(page) == []
    page.goto("/comparisons/")
    listed = page.locator(".verdict")
    expect(listed).to_have_text(f"{mark} {name}")
    assert listed.evaluate("verdict => getComputedStyle(verdict).color") == colours["STRUCTURE"]
    assert problems(page) == []


def test_the_padding_lab_shows_both_nets_and_follows_what_is_typed(page):
    compare_a_sample(page)
    page.keyboard.press("w")
    lab = page.get_by_role("dialog", name="Padding lab")
    expect(lab.locator("tbody tr").first).to_contain_text("pool1 · down1")
    benches = lab.locator(".nw-bench")
    expect(benches).to_have_count(2)
    expect(benches.nth(0).get_by_role("status")).to_contain_text("32 → 16")
    assert benches.nth(0).get_by_role("combobox").input_value() == "caffe"
    benches.nth(1).get_by_label("padding before").fill("0")
    benches.nth(1).get_by_label("padding after").fill("0")
    expect(benches.nth(1).get_by_role("status")).to_contain_text("32 → 15")
    benches.nth(1).get_by_role("combobox").select_option("full")
    expect(benches.nth(1).get_by_role("status")).to_contain_text("32 → 16")
    expect(benches.nth(1).locator(".nw-tap-beyond")).to_have_count(1)
    benches.nth(1).get_by_role("combobox").select_option("same")
    expect(benches.nth(1).get_by_label("padding after")).to_be_disabled()
    expect(benches.nth(1).get_by_label("padding after")).to_have_value("1")
    benches.nth(1).get_by_label("kernel").fill("50")
    benches.nth(1).get_by_role("combobox").select_option("valid")
    expect(benches.nth(1).get_by_role("status")).to_contain_text("Not one window fits")
    page.keyboard.press("Escape")
    expect(lab).to_be_hidden()


def test_a_fix_is_shown_downloaded_and_applied(page):
    first = compare_a_sample(page)
    finding = page.locator(".nw-finding")
    expect(finding.locator(".nw-diff-added")).to_contain_text("pooling_convention")
    with page.expect_download() as download:
        finding.get_by_role("button", name="Patch").click()
    assert "pooling_convention" in Path(download.value.path()).read_text()
    with page.expect_download() as download:
        finding.get_by_role("link", name="Mended file").click()
    assert download.value.suggested_filename == "leaves-symbol.json"
    finding.get_by_role("button", name="Apply and compare again").click()
    page.wait_for_url(lambda url: url.split("#")[0] != first.split("#")[0])
    page.wait_for_selector(VIEWER)
    expect(page.locator(".nw-verdict")).to_contain_text("Identical")
    page.goto("/nets/")
    expect(page.locator(".card-row .name").first).to_have_text("leaves-symbol.json, mended")


def test_a_stored_array_is_saved_from_the_details(page):
    import numpy as np

    compare_a_sample(page)
    page.keyboard.press("/")
    page.keyboard.type("conv1")
    page.keyboard.press("Enter")
    links = page.locator(".nw-array").first.get_by_role("link", name=".npy")
    saved = []
    for side in (0, 1):
        with page.expect_download() as download:
            links.nth(side).click()
        saved.append(np.load(download.value.path()))
    assert saved[0].ndim == 4
    np.testing.assert_array_equal(*saved)


def test_an_onnx_model_is_mended_and_compared_again(page, tmp_path):
    """A convolution whose stride is wrong: the fix is an edit of the protobuf, and a file to download."""
    onnx = pytest.importorskip("onnx")
    import numpy as np

    from tests.formats.onnx.models import model, node

    weights = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    for name, strides in (("right", [1, 1]), ("wrong", [2, 2])):
        nodes = [
            node("Conv", "x w", "c", name="first", strides=strides, pads=[1] * 4),
            node("GlobalAveragePool", "c", "y", name="pool"),
        ]
        onnx.save(model(nodes, {"x": [1, 3, 8, 8]}, ["y"], {"w": weights}), tmp_path / f"{name}.onnx")
    page.goto("/")
    drop(page, "A", tmp_path / "right.onnx")
    drop(page, "B", tmp_path / "wrong.onnx")
    compare(page)
    finding = page.locator(".nw-finding")
    expect(finding.locator(".nw-diff-added")).to_contain_text("strides=[1, 1]")
    with page.expect_download() as download:
        finding.get_by_role("link", name="Mended file").click()
    mended = onnx.load(download.value.path())
    (strides,) = (each.ints for each in mended.graph.node[0].attribute if each.name == "strides")
    assert list(strides) == [1, 1]
    finding.get_by_role("button", name="Apply and compare again").click()
    expect(page.locator(".nw-verdict")).to_contain_text("Identical", timeout=30_000)
