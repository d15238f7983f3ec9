"""The page of a training run, while the run goes on."""

from __future__ import annotations

import pytest

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
    expect(page.get_by_role("row", name="net_iter_7.caffemodel")).to_contain_text("4.0 kB")
    assert page.evaluate("window.before")
