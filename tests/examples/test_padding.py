"""The example's nets against the frameworks that they are written for, and its story from end to end.

The golden file is written by ``tests/oracles/examples.py``.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import netweave
from examples.padding import demo, make_weights
from tests.examples import story
from tests.oracles import golden, recipe

RECORDS = json.loads((Path(__file__).parent.parent / "golden" / "examples.json").read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The example's nets with weights, and the mended port."""
    place = tmp_path_factory.mktemp("padding")
    for file in (demo.NET, demo.PORT):
        shutil.copy(file, place)
    make_weights.write(place)
    demo.mend(place / demo.MENDED.name)
    return place


@pytest.mark.parametrize("name", RECORDS)
def test_outputs_are_those_of_the_net_s_own_framework(folder, name):
    weights = folder / ("leaves.caffemodel" if name.endswith(".prototxt") else "leaves-0000.params")
    net = netweave.load(folder / name, weights)
    data = recipe.image("data", (2, 3, 32, 32), 1.0)
    inputs = {net.inputs[0].name: data} | {value.name: recipe.uniform("", (2,)) for value in net.inputs[1:]}
    (output,) = netweave.run(net, inputs).values()
    assert golden.difference(output, RECORDS[name]) < golden.TOLERANCE


def test_only_the_mended_port_is_the_net():
    net, port, mended = (RECORDS[name]["values"] for name in RECORDS)
    off = [max(abs(a - b) for a, b in zip(net, other, strict=True)) for other in (port, mended)]
    assert off[0] > 0.1
    assert off[1] < 1e-5


@pytest.mark.slow
def test_demo_finds_the_mistake_mends_it_and_proves_it(tmp_path):
    done = story.told(story.copied(tmp_path), "padding")
    assert (done.returncode, done.stderr) == (0, "")
    parts = [
        "$ netweave compare examples/padding/leaves.prototxt examples/padding/leaves-symbol.json",
        "different at pool1 / down1",
        "leaves-symbol.json:15",
        "(exit status 1)",
        '+     "attrs": {"pool_type": "max", "kernel": "(3, 3)", "stride": "(2, 2)", "pad": "(0, 0)"',
        "$ netweave compare examples/padding/leaves.prototxt examples/padding/mended-symbol.json",
        "identical",
        "(exit status 0)",
    ]
    story.assert_in_order(done.stdout, parts)
