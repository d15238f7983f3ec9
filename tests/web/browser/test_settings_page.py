"""The settings of a comparison on the pages: chosen, carried out, chosen anew, and two runs told apart."""

from __future__ import annotations

import numpy as np
import pytest

from tests.web.browser.visiting import VIEWER, compare, compare_a_sample, drop, open_more, problems

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = [pytest.mark.browser, pytest.mark.multi]


@pytest.fixture
def files(tmp_path):
    from tests.viewer import nets

    nets.write_example(tmp_path)
    nets.write_faulty(tmp_path)
    return tmp_path


def bring(page, files):
    page.goto("/")
    drop(page, "A", files / "leaves.prototxt", files / "leaves.caffemodel")
    drop(page, "B", files / "faulty.prototxt", files / "faulty.caffemodel")


def again(page):
    open_more(page, "Again")
    return page.locator("form[data-again]")


def test_a_pair_is_compared_on_own_arrays_between_two_layers(page, files):
    np.savez(files / "mine.npz", data=np.random.default_rng(0).standard_normal((1, 3, 32, 32), np.float32))
    bring(page, files)
    page.locator(".comparison-settings > summary").click()
    page.get_by_label("From layer").fill("conv2")
    page.get_by_label("Measure the time of each layer").check()
    compare(page)
    names = page.locator(".nw-row-title").all_inner_texts()
    assert names == ["relu2"], "the other mistakes are before conv2"
    page.locator(".nw-menu > summary").click()
    page.get_by_label("Heat map of the layers").select_option("seconds")
    expect(page.get_by_role("complementary", name="Scale of the heat map")).to_contain_text("measured")
    form = again(page)
    expect(form.get_by_label("From layer")).to_have_value("conv2")
    form.get_by_label("From layer").fill("")
    form.get_by_label("Own input").set_input_files(str(files / "mine.npz"))
    first = page.url
    form.get_by_role("button", name="Compare again").click()
    page.wait_for_url(lambda url: url.split("#")[0] != first.split("#")[0])
    page.wait_for_selector(VIEWER)
    assert page.locator(".nw-row-title").count() == 3
    page.keyboard.press("Escape")
    expect(page.locator(".nw-inspector")).to_contain_text("data 1x3x32x32")
    form = again(page)
    expect(form).to_contain_text("Now: mine.npz")
    form.get_by_role("link", name="What differs").first.click()
    expect(page.get_by_role("heading", name="What differs between two runs")).to_be_visible()
    rows = page.locator("tbody tr")
    expect(rows.filter(has_text="from layer")).to_contain_text("conv2")
    expect(rows.filter(has_text="own input")).to_contain_text("mine.npz")
    expect(page.get_by_role("main")).to_contain_text("Found by the second run alone")
    assert problems(page) == []


def test_an_image_is_an_input_by_a_preset(page, files):
    import cv2

    pixels = np.random.default_rng(0).integers(0, 256, (40, 50, 3), np.uint8)
    cv2.imwrite(str(files / "cat.png"), pixels)
    compare_a_sample(page)
    form = again(page)
    form.get_by_label("Own input").set_input_files(str(files / "cat.png"))
    form.get_by_label("Prepared as in").select_option(label="Caffe (BGR, minus 104, 117, 123)")
    expect(form.locator("[name=mean]")).to_have_value("104,117,123")
    first = page.url
    form.get_by_role("button", name="Compare again").click()
    page.wait_for_url(lambda url: url.split("#")[0] != first.split("#")[0])
    page.wait_for_selector(VIEWER)
    form = again(page)
    expect(form.get_by_label("Channels")).to_have_value("bgr")
    form.get_by_role("button", name="Remove").click()
    expect(form).not_to_contain_text("cat.png")


def test_what_is_wrong_with_a_setting_is_said_beside_the_form(page):
    compare_a_sample(page)
    form = again(page)
    form.get_by_label("Sizes of A's inputs").fill("1x3")
    form.get_by_role("button", name="Compare again").click()
    expect(form.get_by_role("alert")).to_contain_text("Say which input has the sizes 1x3")
    form.get_by_label("Sizes of A's inputs").fill("")
    form.get_by_label("Probes").fill("1000")
    form.get_by_role("button", name="Compare again").click()
    expect(form.get_by_role("alert")).to_contain_text("Probes")


def test_again_by_keyboard_alone(page):
    first = compare_a_sample(page)
    open_more(page)
    page.locator("details.again > summary").focus()
    page.keyboard.press("Enter")
    form = page.locator("form[data-again]")
    expect(form.get_by_label("From layer")).to_be_focused()
    page.keyboard.type("conv2")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: url.split("#")[0] != first.split("#")[0])
    page.wait_for_selector(VIEWER)
    expect(page.locator(".nw-verdict")).to_contain_text("Identical")


@pytest.mark.parametrize("width", [390, 900, 1440, 1920])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_of_settings_fit_their_windows(visit, width, scheme):
    page = visit(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.goto("/")
    page.locator(".apart > summary").click()
    page.locator(".comparison-settings > summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert problems(page) == []
    compare_a_sample(page)
    again(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    panel = page.locator("form[data-again]").bounding_box()
    assert panel["x"] >= 0
    assert panel["x"] + panel["width"] <= width
    assert problems(page) == []


def test_a_page_of_nets_has_one_bar_above_the_viewer(page):
    compare_a_sample(page)
    bar = page.locator("header.top").bounding_box()
    viewer = page.locator(".nw-viewer").bounding_box()
    assert viewer["y"] == pytest.approx(bar["y"] + bar["height"], abs=1)
    assert bar["height"] <= 56
    expect(page.locator("header.top h1")).to_be_visible()
