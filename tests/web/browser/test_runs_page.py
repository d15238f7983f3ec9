"""The page of a training run, while the run goes on."""

from __future__ import annotations

import json

import pytest

from netweave.training.run_record import recorded
from tests.web.browser.visiting import AXE, problems

pytest.importorskip("tensorboard")
expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = [pytest.mark.browser, pytest.mark.multi]


@pytest.fixture
def writer(runs):
    """What writes the event file of a run as it goes on; TensorBoard's own."""
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    made = EventFileWriter(str(runs / "lenet"))
    yield made
    made.close()


def add(writer, step: int, **scalars: float) -> None:
    from tensorboard.compat.proto import event_pb2, summary_pb2

    values = [
        summary_pb2.Summary.Value(tag=f"train/{tag}", simple_value=value) for tag, value in scalars.items()
    ]
    summary = summary_pb2.Summary(value=values)
    writer.add_event(event_pb2.Event(wall_time=1e9 + step, step=step, summary=summary))
    writer.flush()


def test_a_run_is_followed_without_reloading(page, writer, runs):
    for step in range(5):
        add(writer, step, objective=2.0 / (1 + step), images_per_s=1000.0)
    with recorded(runs / "lenet"):
        follow(page, writer, runs)
    expect(page.locator(".verdict")).to_have_text("finished")


def follow(page, writer, runs):
    page.goto("/runs/")
    expect(page.get_by_text("running")).to_be_visible()
    page.get_by_role("link", name="lenet").click()
    figures = page.locator(".figures")
    expect(figures).to_contain_text("iteration4")
    expect(figures).to_contain_text("images/s1,000")
    expect(page.get_by_role("img", name="objective")).to_have_attribute(
        "aria-label", "objective: train 0.4 at iteration 4"
    )
    expect(page.get_by_role("table")).to_be_hidden()
    page.evaluate("window.before = true")
    (runs / "lenet" / "net_iter_7.caffemodel").write_bytes(b"x" * 4000)
    add(writer, 7, objective=0.125, images_per_s=2000.0)
    expect(figures).to_contain_text("iteration7")
    expect(page.get_by_role("img", name="objective")).to_have_attribute(
        "aria-label", "objective: train 0.125 at iteration 7"
    )
    expect(page.get_by_role("row", name="net_iter_7.caffemodel")).to_contain_text("4.00 kB")
    assert page.evaluate("window.before")


def test_the_page_says_where_the_time_of_a_run_went(page, runs, tmp_path):
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(runs / "timed"))
    path = tmp_path / "goodput.json"
    add(writer, 0, objective=1.0)
    with recorded(runs / "timed", ledger=path):
        page.goto("/runs/show?run=timed")
        expect(page.locator(".figures")).to_contain_text("iteration0")
        expect(page.get_by_role("heading", name="Goodput")).to_be_hidden()
        start = {
            "began": 1000.0,
            "first": 1010.0,
            "alive": 1100.0,
            "saves": [],
            "seconds": {"checkpoint": 4.5},
        }
        path.write_text(json.dumps({"run": "a name", "starts": [start]}))
        add(writer, 1, objective=0.5)
        expect(page.get_by_role("heading", name="Goodput")).to_be_visible()
        expect(page.get_by_text("85.5 % of the 100 s since the run began, over 1 start,")).to_be_visible()
        row = page.get_by_role("row", name="writing checkpoints")
        expect(row.get_by_role("cell")).to_have_text(["4.5 %", "4.5"])
        width = "node => node.offsetWidth / node.parentElement.clientWidth"
        kept, started = (
            page.get_by_role("row", name=name).locator(".share").evaluate(width)
            for name in ("updates that were kept", "starts, until their first updates")
        )
        assert started / kept == pytest.approx(10 / 85.5, rel=0.1)
        if AXE.exists():
            assert problems(page) == []
    writer.close()


def test_values_are_read_at_any_iteration_by_pointer_and_by_keyboard(page, writer):
    for step in range(0, 50, 10):
        add(writer, step, objective=10.0 ** (-step / 10))
    page.goto("/runs/show?run=lenet")
    chart = page.locator(".chart").filter(has_text="objective")
    expect(chart.locator(".axis")).to_have_text("logarithmic")
    chart.get_by_role("img").hover(position={"x": 5, "y": 40})
    expect(chart.locator("output")).to_have_text("0: train 1")
    page.mouse.move(0, 0)
    expect(chart.locator("output")).to_have_text("")
    slider = chart.get_by_role("slider", name="Iteration of objective")
    slider.focus()
    slider.press("Home")
    slider.press("ArrowRight")
    expect(chart.locator("output")).to_have_text("10: train 0.1")
    expect(slider).to_have_attribute("aria-valuetext", "iteration 10: train 0.1")
    page.get_by_label("linear").check()
    expect(chart.locator(".axis")).to_have_count(0)
    page.get_by_label("logarithmic").check()
    expect(chart.locator(".axis")).to_have_count(1)


def test_several_runs_are_laid_over_each_other(page, runs, writer):
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    second = EventFileWriter(str(runs / "other"))
    for step in range(4):
        add(writer, step, objective=2.0 - step / 4)
        add(second, step, objective=1.0 - step / 5)
    page.goto("/runs/")
    for name in ("lenet", "other"):
        page.get_by_label(f"Select {name}").check()
    page.get_by_role("button", name="Show the selected runs together").click()
    expect(page.get_by_role("heading", name="2 runs")).to_be_visible()
    chart = page.locator(".chart").filter(has_text="objective")
    expect(chart.locator(".key").filter(has_text="lenet train")).to_be_visible()
    expect(chart.locator(".key").filter(has_text="other train")).to_be_visible()
    expect(chart.locator("path")).to_have_count(2)
    add(second, 9, objective=0.125)
    expect(chart.get_by_role("img", name="other train 0.125 at iteration 9")).to_be_visible()
    expect(chart.get_by_role("img", name="lenet train 1.25 at iteration 3")).to_be_visible()
    second.close()
    if AXE.exists():
        assert problems(page) == []
