"""A small net of two branches, and the command as a function."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest

from netweave import cli
from netweave.graph import Graph, GraphBuilder, Layer, Origin, Parameter


@dataclass(frozen=True)
class Called:
    status: int
    out: str
    err: str


@pytest.fixture
def netweave(capsys):
    """Call the command line in this process."""

    def call(*arguments: str) -> Called:
        with pytest.raises(SystemExit) as exited:
            cli.main(arguments)
        captured = capsys.readouterr()
        return Called(exited.value.code, captured.out, captured.err)

    return call


@pytest.fixture
def small_net() -> Graph:
    """Data, a convolution with a bias, a ReLU, their concatenation, a pooling that rounds up."""
    builder = GraphBuilder("small", format="caffe", files=("small.prototxt", "small.caffemodel"))
    data = builder.input("data", (2, 3, 8, 8))
    settings = {
        "convolution_param": {"num_output": 4, "kernel_size": [3], "weight_filler": {"type": "xavier"}}
    }
    origin = Origin("small.prototxt", 7)
    with builder.layer(
        Layer(
            "conv[1]",
            "conv[1]",
            "Convolution",
            settings,
            ("data",),
            ("conv",),
            ("conv/0", "conv/1"),
            origin,
        )
    ):
        weight = builder.parameter(Parameter("conv/0", (4, 3, 3, 3), loaded=False), None)
        bias = builder.parameter(Parameter("conv/1", (4,), "bias", loaded=False), None)
        conv = builder.add("Conv", [data, weight, bias], outputs="conv")
    with builder.layer(Layer("relu", "relu", "ReLU", {}, ("conv",), ("relu",))):
        relu = builder.add("Relu", [conv], outputs="relu")
    with builder.layer(Layer("both", "both", "Concat", {"axis": 1}, ("conv", "relu"), ("both",))):
        both = builder.add("Concat", [conv, relu], {"axis": 1}, outputs="both")
    with builder.layer(Layer("pool", "pool", "Pooling", {"kernel_size": 3}, ("both",), ("pool",))):
        pool = builder.add(
            "MaxPool", [both], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, outputs="pool"
        )
    return builder.finish([pool])


@pytest.fixture
def loads_small_net(monkeypatch, small_net):
    """Whatever is loaded is the small net; what was asked for is returned."""
    asked = {}

    def load(net, **options):
        asked.update(net=net, **options)
        return small_net

    import netweave.api.inspecting
    import netweave.api.joint_reading
    import netweave.api.reading

    monkeypatch.setattr(sys.modules["netweave.api"], "load", load)
    monkeypatch.setattr(netweave.api.reading, "load", load)
    monkeypatch.setattr(netweave.api.joint_reading, "load", load)
    monkeypatch.setattr(netweave.api.inspecting, "load", load)
    assert netweave.api.load is load
    return asked
