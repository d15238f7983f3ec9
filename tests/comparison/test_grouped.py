"""Grouped convolutions against branches: weights are carried, and a fault in one branch is found there."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.comparison import Status, Verdict
from netweave.comparison.weight_transfer import transfer_weights
from netweave.graph import GraphBuilder, Layer, Parameter, with_arrays
from netweave.graph.stored import stored_arrays
from tests.oracles import recipe

GROUPS = 3


class Net:
    """A convolution, a grouped one and a dense layer, built one by one."""

    def __init__(self, seed):
        self.builder = GraphBuilder("net", format="onnx")
        self.seed = seed

    def array(self, name, shape):
        stored = recipe.weight(f"{name} {self.seed}", shape, "filter")
        return self.builder.parameter(Parameter(name, shape), stored)

    def layer(self, name):
        return self.builder.layer(Layer(name, name, "layer"))

    def finish(self, middle):
        add = self.builder.add
        x = self.builder.input("data", (1, 3, 9, 7))
        with self.layer("first"):
            x = add("Conv", [x, self.array("v", (2 * GROUPS, 3, 3, 3)), self.array("c", (2 * GROUPS,))])
            x = add("Relu", [x])
        x = middle(self, x)
        with self.layer("last"):
            x = add("Gemm", [add("Flatten", [x]), self.array("d", (25 * 4 * GROUPS, 5))])
        return self.builder.finish([x])


def grouped(net, x):
    with net.layer("conv"):
        arrays = [net.array("w", (4 * GROUPS, 2, 3, 3)), net.array("b", (4 * GROUPS,))]
        x = net.builder.add("Conv", [x, *arrays], {"group": GROUPS, "pads": [0, 1, 0, 1]})
    with net.layer("relu"):
        return net.builder.add("Relu", [x])


def branches(*, faulty=None, fault="", behind=False):
    """A convolution for each piece of the channels, with a fault in one of them."""

    def made(net, x):
        add = net.builder.add
        with net.layer("cut"):
            pieces = net.builder.add_many(
                "Split", [x], {"axis": 1, "num_outputs": GROUPS}, outputs=[f"piece{i}" for i in range(GROUPS)]
            )
        ends = []
        for i, y in enumerate(pieces):
            found = fault if i == faulty else ""
            with net.layer(f"branch{i}"):
                w = net.array(f"w{i}", (4, 2, 3, 3))
                y = add("Conv", [y, w], {"pads": [0, 2, 0, 0] if found == "pads" else [0, 1, 0, 1]})
                if found != "bias":
                    y = add("Add", [y, net.array(f"b{i}", (1, 4, 1, 1))])
                if not behind and found != "activation":
                    y = add("Tanh" if found == "function" else "Relu", [y])
            ends.append(y)
        with net.layer("join"):
            x = add("Concat", ends, {"axis": 1})
        return add("Relu", [x]) if behind else x

    return made


def packed(net, x):
    """As scripts write it that take one array for all groups, and the sum and the rectifier behind them."""
    add, many = net.builder.add, net.builder.add_many
    with net.layer("conv"):
        axes = {"num_outputs": GROUPS}
        pieces = many("Split", [x], {"axis": 1, **axes}, outputs=[f"piece{i}" for i in range(GROUPS)])
        w = net.array("w", (4 * GROUPS, 2, 3, 3))
        filters = many("Split", [w], {"axis": 0, **axes}, outputs=[f"filter{i}" for i in range(GROUPS)])
        pairs = zip(pieces, filters, strict=True)
        x = add(
            "Concat", [add("Conv", pair, {"pads": [0, 1, 0, 1]}) for pair in map(list, pairs)], {"axis": 1}
        )
        return add("Relu", [add("Add", [x, net.array("b", (1, 4 * GROUPS, 1, 1))])])


PORTS = {"branches": branches(), "rectified behind": branches(behind=True), "packed": packed}


@pytest.mark.parametrize("form", PORTS)
@pytest.mark.parametrize("back", [False, True])
def test_weights_are_carried_to_branches_and_back(form, back):
    forms = [grouped, PORTS[form]]
    net, port = (Net(seed).finish(make) for seed, make in zip("ab", forms[:: -1 if back else 1], strict=True))
    filled = transfer_weights(net, port)
    found = netweave.compare(net, filled)
    assert found.equal
    assert not any(group.status.name.startswith("ONLY") for group in found.groups)
    image = {"data": recipe.uniform("image", (1, 3, 9, 7))}
    a, b = (next(iter(netweave.run(graph, image).values())) for graph in (net, filled))
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert set(stored_arrays(filled)) == set(stored_arrays(port))


FAULTS = {
    "weights": ("weights", "conv"),
    "pads": ("padding", "conv"),
    "bias": ("missing-bias", "conv"),
    "activation": ("missing-layer", "relu"),
    "function": ("operator", "relu"),
}
"""What is planted: the mismatch that should explain it, and A's layer."""


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("faulty", [0, 2])
@pytest.mark.parametrize("back", [False, True])
def test_a_fault_in_one_branch_is_found_there(fault, faulty, back):
    net = Net("a").finish(grouped)
    right = stored_arrays(transfer_weights(net, Net("b").finish(branches())))
    broken = Net("b").finish(branches(faulty=faulty, fault=fault))
    arrays = {
        key: right[key] * np.float32(1.5 if key == f"w{faulty}" and fault == "weights" else 1)
        for key in stored_arrays(broken)
    }
    port = with_arrays(broken, arrays)
    found = netweave.compare(port, net) if back else netweave.compare(net, port)
    assert found.verdict is Verdict.DIFFERENT
    (finding,) = found.findings
    mismatch, layer = FAULTS[fault]
    places = [finding.layer_b, finding.layer_a] if back else [finding.layer_a, finding.layer_b]
    assert (finding.mismatch, places[0]) == (mismatch, layer)
    assert places[1] == f"branch{faulty}" or f"after branch{faulty}" in finding.cause
    assert sum(group.status is Status.EQUAL for group in found.groups) >= 6


def test_weights_in_the_wrong_branch_are_found():
    net = Net("a").finish(grouped)
    port = transfer_weights(net, Net("b").finish(branches()))
    arrays = stored_arrays(port)
    found = netweave.compare(net, with_arrays(port, arrays | {"w0": arrays["w1"], "w1": arrays["w0"]}))
    assert found.verdict is Verdict.DIFFERENT
    assert {finding.layer_b for finding in found.findings} == {"branch0", "branch1"}
