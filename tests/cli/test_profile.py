"""``netweave compare --profile`` and ``--memory``."""

from __future__ import annotations

import io
import json
import re

import numpy as np
import pytest
from rich.console import Console

from netweave.api import save
from netweave.cli.run_view import show_profile
from netweave.graph import GraphBuilder, Parameter


@pytest.fixture
def net(tmp_path):
    builder = GraphBuilder("net", format="onnx", files=("a.net",))
    x = builder.input("data", (1, 3, 8, 8))
    filters = np.random.default_rng(0).standard_normal((4, 3, 3, 3), dtype=np.float32)
    weight = builder.parameter(Parameter("w", filters.shape), filters)
    y = builder.add("Relu", [builder.add("Conv", [x, weight])])
    path = tmp_path / "net.onnx"
    save(builder.finish([y]), path)
    return str(path)


def rows_of(text: str) -> dict[str, float]:
    rows = re.findall(r"^(\S.*?) +(\d+\.\d\d) s +\d+ %$", text, re.MULTILINE)
    return {name: float(seconds) for name, seconds in rows}


def test_stages_are_shown_in_order_and_short_ones_together():
    stream = io.StringIO()
    seconds = {"read": 1.5, "normalise": 0.001, "run A": 0.5, "align": 0.002}
    show_profile(Console(file=stream, width=80, color_system=None), seconds)
    assert list(rows_of(stream.getvalue()).items()) == [
        ("read", 1.5),
        ("run A", 0.5),
        ("shorter stages", 0.0),
        ("total", 2.0),
    ]
    assert re.search(r"peak memory \d+(\.\d+)? [MG]B", stream.getvalue())


def test_with_json_on_standard_output_the_profile_is_beside_it(net, netweave):
    called = netweave("compare", net, net, "--profile", "--json", "-")
    assert called.status == 0
    seconds = json.loads(called.out)["seconds"]
    assert next(iter(seconds)) == "read"
    assert {"normalise", "match weights", "run A", "run B", "match values", "judge"} <= seconds.keys()
    shown = rows_of(called.err)
    assert shown["total"] == pytest.approx(sum(seconds.values()), abs=0.011)
    assert sum(shown.values()) == pytest.approx(2 * shown["total"], abs=0.005 * len(shown) + 0.011)


def test_without_the_option_nothing_is_said_of_it(net, netweave):
    assert "peak memory" not in netweave("compare", net, net).out


def test_a_limit_that_is_kept_changes_nothing_and_one_that_cannot_be_is_an_error(net, netweave):
    assert netweave("compare", net, net, "--memory", "20GB").out.startswith("identical")
    refused = netweave("compare", net, net, "--memory", "1MB")
    assert refused.status == 2
    assert "1.00 MB of memory are too little for these nets" in refused.err
    assert "(--memory)" in refused.err
