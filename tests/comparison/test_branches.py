"""Branches of one size are told apart by what is stored for them, and by where they lead."""

from __future__ import annotations

import numpy as np

import netweave
from netweave.comparison.weight_transfer import transfer_weights
from netweave.graph import GraphBuilder, Layer, Parameter
from tests.oracles import recipe


def block(*, shortcut_first: bool):
    """A residual block whose shortcut and first convolution make values of one size from one value."""
    builder = GraphBuilder("block", format="onnx")

    def conv(x, name, shape, stride, pad):
        with builder.layer(Layer(f"{name}{shortcut_first}", f"{name}{shortcut_first}", "Conv")):
            values = recipe.weight(f"{name} {shortcut_first}", shape, "filter")
            weight = builder.parameter(Parameter(name, shape), values)
            return builder.add("Conv", [x, weight], {"strides": [stride] * 2, "pads": [pad] * 4})

    x = builder.input("data", (1, 4, 9, 9))
    if shortcut_first:
        y = conv(x, "shortcut", (6, 4, 1, 1), 2, 0)
    z = builder.add("Relu", [conv(x, "first", (6, 4, 3, 3), 2, 1)])
    z = conv(z, "second", (6, 6, 3, 3), 1, 1)
    if not shortcut_first:
        y = conv(x, "shortcut", (6, 4, 1, 1), 2, 0)
    return builder.finish([builder.add("Add", [z, y])])


def test_a_shortcut_is_not_taken_for_the_convolution_beside_it():
    net, port = block(shortcut_first=False), block(shortcut_first=True)
    filled = transfer_weights(net, port)
    for key in ("shortcut", "first", "second"):
        taken, given = (graph.model.graph.initializers[key].const_value.numpy() for graph in (filled, net))
        np.testing.assert_array_equal(taken, given)


CONV = """layer {{ name: "{name}" type: "Convolution" bottom: "{bottom}" top: "{name}"
        convolution_param {{ num_output: {width} kernel_size: 3 pad: 1 }} }}
"""
POOL = """layer {{ name: "pool" type: "Pooling" bottom: "data" top: "pool"
        pooling_param {{ pool: MAX kernel_size: 2 stride: 2 round_mode: {mode} }} }}
"""


def two_branches(path, names: str, order: list[int], mode: str):
    """Two branches that begin alike, written in any order, behind a pooling that may make other sizes."""
    layers = []
    for branch, width in ((0, 3), (1, 5)):
        made = [f"{names[branch]}{depth}" for depth in range(4)]
        bottoms, widths = ["pool", *made[:3]], [6, 6, 6, width]
        layers += [
            CONV.format(name=n, bottom=b, width=w) for n, b, w in zip(made, bottoms, widths, strict=True)
        ]
    text = 'layer { name: "data" type: "Input" top: "data" input_param { shape {'
    text += " dim: 1 dim: 6 dim: 9 dim: 9 } } }\n" + POOL.format(mode=mode)
    text += "".join(layers[i] for i in order)
    text += f'layer {{ name: "cat" type: "Concat" bottom: "{names[0]}3" bottom: "{names[1]}3" top: "cat" }}\n'
    path.write_text(text)
    return path


def test_branches_that_begin_alike_are_told_apart_by_where_they_lead(tmp_path):
    net = two_branches(tmp_path / "a.prototxt", "lr", [0, 4, 1, 5, 2, 6, 3, 7], "CEIL")
    port = two_branches(tmp_path / "b.prototxt", "xy", [4, 5, 6, 7, 0, 1, 2, 3], "FLOOR")
    found = netweave.compare(net, port)
    assert [finding.mismatch for finding in found.findings] == ["pool-rounding"]
    same = two_branches(tmp_path / "c.prototxt", "xy", [4, 5, 6, 7, 0, 1, 2, 3], "CEIL")
    assert netweave.compare(net, same).same_structure
