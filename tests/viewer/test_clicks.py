"""Every box, frame and control is clicked: nothing throws, and the details name what is selected."""

from __future__ import annotations

import pytest

from netweave.comparison import Evidence, Status
from tests.viewer import nets

pytestmark = pytest.mark.browser

CLICK_ALL = """
async () => {
  const { app } = window;
  const wrong = [];
  const pause = () => new Promise((done) => setTimeout(done, 0));
  const until = async (test) => { for (let turn = 0; turn < 200 && !test(); turn++) await pause(); };
  const heads = () => [...document.querySelectorAll('.nw-inspector h2')].map((head) => head.textContent);
  const click = (side, x, y) => {
    const pane = app.stage.visible.find((one) => one.side === side);
    const place = pane.canvas.getBoundingClientRect();
    const [clientX, clientY] = app.stage.transform.apply([x, y]);
    const at = { clientX: place.left + clientX, clientY: place.top + clientY, bubbles: true };
    pane.canvas.dispatchEvent(new MouseEvent('click', at));
  };
  for (const box of [...app.scene.boxes]) {
    const side = box.present[0] ? 0 : 1;
    app.stage.centre(box.x + box.width / 2, box.y + box.height / 2, 1);
    click(side, box.x + box.width / 2, box.y + box.height / 2);
    await until(() => app.selected === box.id);
    const [first] = app.scene.members(box.id, side);
    const name = box.isFold ? app.scene.foldTitle(box.id, side) : first.name || first.type;
    if (!heads().includes(name)) wrong.push([name, heads().join(' and ')]);
  }
  return wrong;
}
"""
"""Clicks every box where it is drawn; returns those that the details do not name, with what they name."""

CLICK_FRAMES = """
async () => {
  const { app } = window;
  for (const frame of [...app.scene.frames].reverse()) {
    if (!app.scene.frames.some(({ id }) => id === frame.id)) continue;
    const before = app.scene.boxes.length;
    await app.clicked(frame, 0);
    for (let turn = 0; turn < 400 && app.scene.boxes.length === before; turn++)
      await new Promise((done) => setTimeout(done, 5));
  }
  return app.scene.frames.length;
}
"""


@pytest.fixture(scope="module")
def subjects(faulty):
    a, b = nets.residual(8, name="a"), nets.residual(8, name="b")
    gpt = nets.compared(
        nets.transformer(),
        nets.transformer(name="port"),
        {"/b.3/mlp/fc/Relu": (Status.DIFFERENT, Evidence.VALUES)},
    )
    return {
        "leaves": faulty,
        "residual": nets.compared(a, b, {"block5/conv2": (Status.DIFFERENT, Evidence.WEIGHTS)}),
        "transformer": gpt,
        "alone": nets.transformer(),
        "hostile": nets.hostile(),
        "shared": nets.shared(12),
    }


@pytest.mark.parametrize("name", ["leaves", "residual", "transformer", "alone", "hostile", "shared"])
def test_every_box_can_be_clicked_and_is_named(show, subjects, name):
    shown = show(subjects[name])
    page = shown.page
    assert page.evaluate(CLICK_ALL) == []
    for fold in ("Collapse all blocks", "Expand all blocks"):
        page.get_by_role("button", name=fold, exact=True).click()
        page.wait_for_timeout(200)
        assert page.evaluate(CLICK_ALL) == []
    assert page.evaluate(CLICK_FRAMES) == 0
    assert page.evaluate(CLICK_ALL) == []
    assert shown.errors == []


@pytest.mark.parametrize("name", ["residual", "alone"])
def test_every_control_can_be_clicked(show, subjects, name):
    shown = show(subjects[name])
    page = shown.page
    for number in range(page.locator(".nw-viewer button").count()):
        button = page.locator(".nw-viewer button").nth(number)
        if not button.count():
            continue  # what it belonged to has gone
        button.evaluate("b => { const menu = b.closest('.nw-menu'); if (menu) menu.open = true }")
        if not button.is_visible():
            continue
        button.click()
        page.wait_for_timeout(60)
        for _ in range(2):
            page.keyboard.press("Escape")
        assert shown.errors == [], button.get_attribute("aria-label")
    page.locator(".nw-menu > summary").click()
    for option in page.locator("select option").all():
        page.locator("select").first.select_option(option.get_attribute("value"))
    assert shown.errors == []


def test_a_block_with_a_difference_lists_it(show, subjects):
    """The details of such a block threw, and kept the layer that was selected before."""
    shown = show(subjects["residual"])
    shown.page.get_by_role("button", name="Collapse all blocks", exact=True).click()
    shown.page.wait_for_timeout(200)
    assert shown.selected == ["block5"]
    details = shown.page.get_by_role("complementary", name="Details")
    details.get_by_role("button", name="block5/conv2").click()
    shown.page.wait_for_timeout(200)
    assert shown.selected == ["block5/conv2", "block5/conv2"]
    assert shown.errors == []


def test_expanding_everything_keeps_the_layer_that_was_selected(show, subjects):
    shown = show(subjects["transformer"])
    assert shown.selected == ["/b.3/mlp/fc/Relu", "/b.3/mlp/fc/Relu"]
    for fold in ("Collapse all blocks", "Expand all blocks"):
        shown.page.get_by_role("button", name=fold, exact=True).click()
        shown.page.wait_for_timeout(200)
    assert shown.selected == ["/b.3/mlp/fc/Relu", "/b.3/mlp/fc/Relu"]


def test_a_transformer_opens_as_its_blocks_with_stem_and_head(show, subjects):
    shown = show(subjects["alone"], viewport=(1440, 900))
    page = shown.page
    titles = page.evaluate("app.scene.boxes.map((box) => app.scene.rows(box, 0)[0].title)")
    assert titles == ["input", "Relu", *(f"b.{index}" for index in range(6)), "Relu"]
    scene = page.evaluate(
        "[app.scene.layout.width, app.scene.layout.height, app.stage.transform.k,"
        " app.stage.visible[0].width, app.stage.visible[0].height]"
    )
    assert scene[0] * scene[2] <= scene[3]
    assert scene[1] * scene[2] <= scene[4]
    page.evaluate("app.toggleFold(app.scene.boxes.find((box) => box.isFold).id)")
    page.wait_for_timeout(200)
    titles = page.evaluate("app.scene.boxes.map((box) => app.scene.rows(box, 0)[0].title)")
    assert titles[2:6] == ["attn", "Add", "mlp", "Add"]


def test_what_does_nothing_is_drawn_when_asked_for(show, subjects):
    shown = show(subjects["alone"])
    page = shown.page
    page.get_by_role("button", name="Expand all blocks").click()
    page.wait_for_timeout(200)
    without = shown.num_boxes
    assert page.locator(".nw-tabs button").inner_text().split() == ["Layers", "45"]
    shown.view("6 idle")
    page.wait_for_timeout(200)
    page.get_by_role("button", name="Expand all blocks").click()
    page.wait_for_timeout(200)
    assert shown.num_boxes == without + 6
    assert page.locator(".nw-tabs button").inner_text().split() == ["Layers", "51"]
    shown.view("6 idle")
    page.wait_for_timeout(200)
    page.get_by_role("searchbox").fill("b.2/attn/drop")
    page.get_by_role("searchbox").press("Enter")
    page.wait_for_timeout(300)
    assert shown.selected == ["/b.2/attn/drop/Identity"]
    assert shown.errors == []


def test_a_layout_that_fails_is_told_and_the_drawing_stays(show, subjects):
    shown = show(subjects["alone"])
    page = shown.page
    before = shown.num_boxes
    page.evaluate(
        "() => { app.clients.get('layers').layout = () => Promise.reject(new Error('out of memory')); }"
    )
    page.get_by_role("button", name="Expand all blocks").click()
    page.wait_for_timeout(200)
    assert "could not be laid out anew. out of memory" in page.locator(".nw-toast").inner_text()
    assert shown.num_boxes == before
    shown.press("/")
    page.keyboard.type("head")
    shown.press("Enter")
    assert shown.selected == ["/head/Relu"]
    assert shown.errors == []


def test_one_net_opens_as_its_drawing_on_a_phone(show, subjects):
    shown = show(subjects["alone"], viewport=(390, 844))
    assert shown.page.locator("canvas[role=application]").is_visible()
    right, bottom, width, height = shown.page.evaluate(
        "(({ stage, scene: { layout } }) => [...stage.transform.apply([layout.width, layout.height]),"
        " stage.visible[0].width, stage.visible[0].height])(app)"
    )
    assert 0 < right <= width
    assert 0 < bottom <= height
