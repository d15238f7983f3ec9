"""``netweave inspect``: everything that matters is shown, whatever the width."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from netweave.cli.net_view import show_net

# a 3x3 convolution of 3 channels to 4 on 6x6 outputs: weights and biases, then 4*36 outputs of 27 products
PARAMETERS = 4 * 3 * 3 * 3 + 4
MULTIPLY_ADDS = 4 * 36 * 27

NAMES = ("conv[1]", "relu", "both", "pool")
SHAPES = ("Nx3x8x8", "Nx4x6x6", "Nx8x6x6", "Nx8x3x3")


def shown(graph, *, width: int, nodes: bool = False) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=True, color_system=None)
    show_net(console, graph, nodes=nodes, batch=1)
    return stream.getvalue()


@pytest.mark.parametrize("width", [80, 120, 200])
def test_whole_at_every_width(width, small_net):
    text = shown(small_net, width=width)
    for word in (*NAMES, *SHAPES, "Convolution", "num_output=4", "kernel_size=3", "4 layers", "3.89 k"):
        assert word in text
    assert max(map(len, text.splitlines())) <= width
    assert "xavier" not in text


@pytest.mark.parametrize(("width", "lines"), [(80, 2), (140, 1)])
def test_long_setting_is_folded_and_does_not_cost_the_columns(width, lines, small_net):
    source = "examples/imagenet/" + "very_long_" * 6 + "train_lmdb"
    small_net.layers.add(replace(small_net.layers["relu"], settings={"source": source}))
    rows = shown(small_net, width=width).splitlines()
    assert source in "".join("".join(row.split()) for row in rows).replace("Nx4x6x6", "")
    (pool,) = [index for index, row in enumerate(rows) if row.startswith(" pool")]
    (total,) = [index for index, row in enumerate(rows) if "4 layers" in row]
    assert total - pool - 1 == lines


def test_pipe_has_whole_words_in_100_columns_and_no_colour(netweave, loads_small_net):
    lines = netweave("inspect", "small.prototxt").out.splitlines()
    (row,) = [line for line in lines if line.strip().startswith("conv[1]")]
    assert row.split() == [
        *("conv[1]", "Convolution", "num_output=4", "Nx3x8x8", "Nx4x6x6"),
        *(str(PARAMETERS), "3.89", "k"),
    ]
    (row,) = [line for line in lines if line.strip().startswith("both")]
    assert max(map(len, lines)) <= 100
    assert not any("\x1b" in line for line in lines)


def test_nodes(small_net):
    text = shown(small_net, width=120, nodes=True)
    for word in ("Conv", "MaxPool", "kernel_shape=3,3", "4 nodes", "ceil_mode=1"):
        assert word in text


def test_missing_weights_and_sizes_are_said(small_net):
    assert "2 of them not found, drawn instead" in shown(small_net, width=80)


def test_json(netweave, loads_small_net, tmp_path):
    found = json.loads(netweave("inspect", "small.prototxt", "--json", "-", "--batch", "5").out)
    assert found["totals"]["parameters"] == PARAMETERS
    assert found["totals"]["multiply_adds"] == 5 * MULTIPLY_ADDS
    assert found["inputs"] == [{"name": "data", "shape": ["N", 3, 8, 8], "declared": [2, 3, 8, 8]}]
    conv = found["layers"][0]
    assert (conv["name"], conv["line"], conv["num_parameters"]) == ("conv[1]", 7, PARAMETERS)
    assert [node["operator"] for node in found["nodes"]] == ["Conv", "Relu", "Concat", "MaxPool"]
    file = tmp_path / "net.json"
    assert "4 layers" in netweave("inspect", "small.prototxt", "--json", str(file)).out
    assert json.loads(file.read_text())["name"] == "small"


def test_json_that_cannot_be_written(netweave, loads_small_net, tmp_path):
    called = netweave("inspect", "x", "--json", str(tmp_path))
    assert called.status == 2
    assert "cannot be written: Is a directory" in called.err


def test_options_of_reading_reach_the_reader(netweave, loads_small_net):
    netweave(
        *("inspect", "a=b.prototxt", "--phase", "train", "--stage", "x", "--stage", "y", "--level", "3"),
        *("--input-shape", "data=1x3x24x24", "--input-shape", "im=info=1,3", "--trust"),
        *("--root", "repo", "--config", "net.yaml:model"),
    )
    assert loads_small_net == {
        "net": "a=b.prototxt",
        "phase": "TRAIN",
        "stages": ("x", "y"),
        "level": 3,
        "input_shapes": {"data": (1, 3, 24, 24), "im=info": (1, 3)},
        "trust": True,
        "root": "repo",
        "config": "net.yaml:model",
    }
