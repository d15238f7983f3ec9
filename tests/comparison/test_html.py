"""A Comparison in a notebook."""

from __future__ import annotations

import pytest

from netweave.comparison import Comparison, Evidence, Finding, Group, Status, TensorMapping, Verdict
from netweave.comparison.result.html import COLOURS, comparison_html
from tests.graph.test_html import Reader, hostile_net


def test_every_status_has_a_colour():
    assert set(COLOURS) == {status.name for status in Status}


def test_every_verdict_has_a_colour_and_its_mark():
    net = hostile_net()
    for verdict in Verdict:
        shown = comparison_html(Comparison(net, net, verdict, "one sentence"))
        assert f"<div class=verdict-{verdict.look.colour}><b>{verdict.mark} one sentence</b>" in shown
    assert len({verdict.look.colour for verdict in Verdict}) == len(Verdict)


@pytest.mark.parametrize("status", Status)
def test_everything_is_shown_and_nothing_from_a_file_is_markup(status):
    net = hostile_net()
    finding = Finding("eps", "<s>cause", "<u>fix", "a:1", "b:2", "<b>fc", "fc", error=0.5, error_fixed=2e-7)
    group = Group(("n",), ("<i>n",), ("<b>fc",), (), Evidence.GUESS, status, error=0.534, finding=finding)
    mapping = TensorMapping("<i>data", "data", text="<i>swapped")
    comparison = Comparison(
        net, net, Verdict.DIFFERENT, "<s>sentence", (group,), inputs=(mapping,), notes=("<u>note",)
    )
    read = Reader(comparison_html(comparison))
    for words in (
        "<s>sentence",
        "<s>cause",
        "<u>fix",
        "<b>fc (a:1) against fc (b:2)",
        "guess",
        "0.5",
        "2e-07",
    ):
        assert words in read.text
    for words in (status.value, "<i>data -> data: <i>swapped", "<u>note", "<i>n"):
        assert words in read.text
    assert not read.tags & {"s", "u", "i"}
