"""Nets that are read to be compared, what is shown in a pipe, and what is said of a run."""

from __future__ import annotations

import json

import pytest

STRUCTURE = 4
"""Exit status of nets without weights that agree."""

CAFFE = """name: "a"
layer {{ name: "data" type: "Input" top: "{name}" {shape} }}
layer {{ name: "conv" type: "Convolution" bottom: "{name}" top: "conv"
        convolution_param {{ num_output: 4 kernel_size: 3 }} }}
layer {{ name: "relu" type: "ReLU" bottom: "conv" top: "relu" }}
"""
SHAPE = "input_param {{ shape {{ dim: 1 dim: 3 dim: {size} dim: {size} }} }}"
MXNET = {
    "nodes": [
        {"op": "null", "name": "img", "inputs": []},
        {"op": "null", "name": "c_weight", "inputs": []},
        {"op": "null", "name": "c_bias", "inputs": []},
        {
            "op": "Convolution",
            "name": "c",
            "attrs": {"kernel": "(3, 3)", "num_filter": "4"},
            "inputs": [[0, 0, 0], [1, 0, 0], [2, 0, 0]],
        },
        {"op": "Activation", "name": "r", "attrs": {"act_type": "relu"}, "inputs": [[3, 0, 0]]},
    ],
    "arg_nodes": [0, 1, 2],
    "heads": [[4, 0, 0]],
}


@pytest.fixture
def nets(tmp_path, monkeypatch):
    """Two nets of Caffe, with an input of another name, and one of MXNet, which says no size."""
    monkeypatch.chdir(tmp_path)
    for name in ("data", "image"):
        (tmp_path / f"{name}.prototxt").write_text(CAFFE.format(name=name, shape=SHAPE.format(size=9)))
    (tmp_path / "img-symbol.json").write_text(json.dumps(MXNET))
    return tmp_path


def test_sizes_are_for_the_net_that_has_the_input(nets, netweave):
    found = netweave("compare", "data.prototxt", "image.prototxt", "--input-shape", "image=1x3x12x12")
    assert found.status == STRUCTURE, found.err
    both = ("--input-shape", "data=1x3x12x12", "--input-shape", "image=1x3x12x12")
    assert netweave("compare", "data.prototxt", "image.prototxt", *both).status == STRUCTURE


def test_sizes_for_an_input_that_no_net_has_are_refused(nets, netweave):
    found = netweave("compare", "data.prototxt", "image.prototxt", "--input-shape", "x=1x3x12x12")
    assert found.status == 2
    assert "no input named 'x'" in found.err


def test_a_net_that_says_no_size_takes_that_of_the_other(nets, netweave):
    found = netweave("compare", "data.prototxt", "img-symbol.json")
    assert found.status == STRUCTURE, found.err
    assert "came without weights" in found.out
    assert "img-symbol.json: the input 'img' takes its sizes from the first net: 1x3x9x9" in found.out
    turned = netweave("compare", "img-symbol.json", "data.prototxt")
    assert turned.status == STRUCTURE, turned.err
    assert "takes its sizes from data.prototxt: 1x3x9x9" in turned.out


def test_no_line_in_a_pipe_ends_in_blanks(nets, netweave):
    for arguments in (("inspect", "data.prototxt"), ("compare", "data.prototxt", "image.prototxt", "--all")):
        lines = netweave(*arguments).out.splitlines()
        assert len(lines) > 5
        assert lines == [line.rstrip() for line in lines]


def test_a_saved_comparison_is_given_as_json_again(nets, netweave):
    assert netweave("compare", "data.prototxt", "image.prototxt", "--json", "saved.json").status == STRUCTURE
    again = netweave("show", "saved.json", "--json", "-")
    assert again.status == STRUCTURE
    assert json.loads(again.out) == json.loads((nets / "saved.json").read_text())
    shown = netweave("show", "saved.json", "--json", "copy.json")
    assert "groups of layers" in shown.out
    assert json.loads((nets / "copy.json").read_text()) == json.loads(again.out)


def test_drawn_weights_are_said_to_be_drawn(nets, netweave):
    assert "no weights were found; they were drawn" in netweave("run", "data.prototxt", "--random", "1").out


@pytest.mark.parametrize(("wrong", "right"), [("convolution", "Convolution"), ("Relu", "ReLU")])
def test_a_type_that_was_meant_is_proposed(nets, netweave, wrong, right):
    text = (nets / "data.prototxt").read_text().replace(f'"{right}"', f'"{wrong}"')
    (nets / "bad.prototxt").write_text(text)
    found = netweave("run", "bad.prototxt", "--random", "1")
    assert found.status == 2
    assert f"; did you mean {right!r}?)" in found.err
    shown = netweave("inspect", "bad.prototxt")
    assert shown.status == 0
    assert f"; did you mean {right!r}?); the net is shown as far as it is known" in " ".join(
        shown.out.split()
    )


def test_a_type_like_no_other_gets_no_proposal(nets, netweave):
    text = (nets / "data.prototxt").read_text().replace('"ReLU"', '"Quantum"')
    (nets / "bad.prototxt").write_text(text)
    assert (
        "bad.prototxt: has one layer type that Netweave does not read: Quantum ('"
        in netweave("run", "bad.prototxt", "--random", "1").err
    )


def test_a_file_of_weights_shows_what_it_holds(corpus, netweave):
    path = str(corpus / "mtcnn" / "det1.caffemodel")
    found = netweave("inspect", path)
    assert found.status == 0
    assert "6,632" in found.out
    assert "read as weights alone, since the net in it cannot be built" in " ".join(found.out.split())
    assert netweave("compare", path, str(corpus / "mtcnn" / "det1.npy")).status == 0


@pytest.mark.slow
@pytest.mark.multi
def test_code_that_takes_no_usual_size_takes_that_of_the_first(nets, netweave):
    pytest.importorskip("torch")
    (nets / "port.py").write_text(
        "from torch import nn\n\n\nclass Port(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.conv = nn.Conv2d(3, 4, 3)\n\n"
        "    def forward(self, x):\n        return self.conv(x).view(x.shape[0], 4, 7, 7).relu()\n"
    )
    found = netweave("compare", "data.prototxt", "port.py", "--trust")
    assert found.status == STRUCTURE, found.err
    assert "nobody said the size of input 'x': traced with Nx3x9x9, the first that its code" in found.out
