"""Layers whose filters are others in number or window, and branches that are joined at once or one by one."""

from __future__ import annotations

import pytest

import netweave

NET = """layer {{ name: "data" type: "Input" top: "data"
        input_param {{ shape {{ dim: 1 dim: 3 dim: 12 dim: 12 }} }} }}
layer {{ name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
        convolution_param {{ {conv1} }} }}
layer {{ name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
        pooling_param {{ kernel_size: 2 stride: 2 }} }}
layer {{ name: "conv2" type: "Convolution" bottom: "pool1" top: "conv2"
        convolution_param {{ {conv2} }} }}
layer {{ name: "fc" type: "InnerProduct" bottom: "conv2" top: "fc" inner_product_param {{ {fc} }} }}
"""
RIGHT = {
    "conv1": "num_output: 6 kernel_size: 3 pad: 1",
    "conv2": "num_output: 8 kernel_size: 5 pad: 2",
    "fc": "num_output: 4",
}


def write(path, **changed):
    path.write_text(NET.format(**(RIGHT | changed)))
    return path


@pytest.mark.parametrize(
    ("changed", "layer", "cause", "fix"),
    [
        ({"fc": "num_output: 5"}, "fc", "A has 4 filters, B has 5", "num_output: 4"),
        (
            {"conv2": "num_output: 8 kernel_size: 3 pad: 1"},
            "conv2",
            "the window of the filters is 5x5 in A and 3x3 in B; padding is 2 in A and 1 in B",
            "kernel_size: 5 and pad: 2",
        ),
        (
            {"conv1": "num_output: 7 kernel_size: 3 pad: 1"},
            "conv1",
            "A has 6 filters, B has 7",
            "num_output: 6",
        ),
    ],
)
def test_what_is_other_about_the_filters_is_said(tmp_path, changed, layer, cause, fix):
    net = write(tmp_path / "a.prototxt")
    found = netweave.compare(net, write(tmp_path / "b.prototxt", **changed))
    first = found.findings[0]
    assert (first.mismatch, first.layer_a, first.layer_b) == ("filter-shape", layer, layer)
    assert (first.cause, first.fix) == (cause, fix)
    assert found.exit_status == 1
    assert all(finding.mismatch is None for finding in found.findings[1:])


JOINED = """layer { name: "data" type: "Input" top: "data"
        input_param { shape { dim: 1 dim: 3 dim: 9 dim: 9 } } }
layer { name: "pool" type: "Pooling" bottom: "data" top: "pool"
        pooling_param { pool: POOL kernel_size: 3 } }
layer { name: "x" type: "Convolution" bottom: "pool" top: "x"
        convolution_param { num_output: 2 kernel_size: 1 } }
layer { name: "y" type: "Convolution" bottom: "pool" top: "y"
        convolution_param { num_output: 4 kernel_size: 1 } }
layer { name: "z" type: "Convolution" bottom: "pool" top: "z"
        convolution_param { num_output: 5 kernel_size: 1 } }
"""


def concat(name, *bottoms):
    read = " ".join(f"bottom: {bottom!r}" for bottom in bottoms)
    return f'layer {{ name: "{name}" type: "Concat" top: "{name}" {read} }}\n'


def test_branches_may_be_joined_one_by_one(tmp_path):
    """Behind a difference, where no values show that the ends are the same."""
    net, port = tmp_path / "a.prototxt", tmp_path / "b.prototxt"
    net.write_text(JOINED.replace("POOL", "MAX") + concat("xyz", "x", "y", "z"))
    port.write_text(JOINED.replace("POOL", "AVE") + concat("xy", "x", "y") + concat("xyz", "xy", "z"))
    found = netweave.compare(net, port)
    assert [(finding.mismatch, finding.layer_b) for finding in found.findings] == [("operator", "pool")]
    port.write_text(JOINED.replace("POOL", "MAX") + concat("xy", "x", "y") + concat("xyz", "xy", "z"))
    assert netweave.compare(net, port).same_structure


def chain(path, prefix, *layers):
    """Write layers that read one another; a number of filters, and of groups, is a convolution."""
    text = 'layer { name: "data" type: "Input" top: "x"\n'
    text += "        input_param { shape { dim: 1 dim: 3 dim: 12 dim: 12 } } }\n"
    for number, layer in enumerate(layers):
        said = layer
        if isinstance(layer, tuple):
            count, groups = layer
            said = f'type: "Convolution" convolution_param {{ num_output: {count} kernel_size: 3 pad: 1 '
            said += f"group: {groups} }}"
        text += f'layer {{ name: "{prefix}{number}" bottom: "x" top: "x" {said} }}\n'
    path.write_text(text)
    return path


RELU, NORM = 'type: "ReLU"', 'type: "LRN"'
MAX, MEAN = (
    f'type: "Pooling" pooling_param {{ pool: {kind} kernel_size: 2 stride: 2 }}' for kind in ("MAX", "AVE")
)
DENSE = 'type: "InnerProduct" inner_product_param { num_output: 4 }'


def test_layers_of_a_chain_are_paired_in_order_where_none_is_as_wide_as_its_counterpart(tmp_path):
    """As in AlexNet: of the widths 384, 384, 256 and 384, 256, 256, the second of A is no first of B."""
    a = chain(tmp_path / "a.prototxt", "a", NORM, (12, 1), RELU, (12, 2), RELU, (8, 1), RELU, MAX, DENSE)
    b = chain(tmp_path / "b.prototxt", "b", (12, 1), RELU, (8, 1), RELU, (8, 1), RELU, MAX, MEAN, DENSE)
    found = netweave.compare(a, b)
    pairs = {(group.layers_a, group.layers_b) for group in found.groups}
    assert pairs >= {(("a1",), ("b0",)), (("a3",), ("b2",)), (("a5",), ("b4",)), (("a7",), ("b6",))}
    causes = {finding.layer_a: finding.cause for finding in found.findings}
    assert (
        causes["a3"]
        == "A has 12 filters, B has 8; the channels are read in 2 groups in A and in one group in B"
    )
    assert "a0" in causes
