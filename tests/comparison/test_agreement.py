"""What agreeing outputs prove: a difference that is made up for is none, one that is hidden is one."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.comparison import Status, Verdict
from netweave.comparison.explain import agreement
from netweave.graph import Graph, GraphBuilder, Layer, Parameter


def chain(factors: tuple[float, ...], file: str, *, hide: str = "", slope: float = 0.1) -> Graph:
    """Convolutions with a rectifier behind each, and perhaps what hides all that is before."""
    rng = np.random.default_rng(5)
    builder = GraphBuilder("net", format="onnx", files=(file,))
    x = builder.input("data", (1, 4, 9, 9))
    for number, factor in enumerate(factors, start=1):
        array = rng.standard_normal((4, 4, 3, 3), dtype=np.float32) / 6 * np.float32(factor)
        with builder.layer(Layer(f"conv{number}", f"conv{number}", "Convolution")):
            weight = builder.parameter(Parameter(f"conv{number}", array.shape), array)
            x = builder.add("Conv", [x, weight], {"pads": [1] * 4})
        with builder.layer(Layer(f"act{number}", f"act{number}", "ReLU")):
            x = builder.add("LeakyRelu", [x], {"alpha": slope if number == 1 else 0.1})
    if hide:
        with builder.layer(Layer("hide", "hide", "Scale")):
            factor = {"zero": 0.0, "saturated": 1e7}[hide]
            scale = np.full((4, 1, 1), factor, np.float32)
            x = builder.add("Mul", [x, builder.parameter(Parameter("hide", (4, 1, 1)), scale)])
        with builder.layer(Layer("prob", "prob", "Sigmoid")):
            x = builder.add("Sigmoid", [x])
    return builder.finish([x])


def test_weights_that_make_up_for_each_other_are_equal() -> None:
    found = netweave.compare(chain((1, 1, 1), "a.net"), chain((1, 2, 0.5), "b.net"))
    assert found.equal


@pytest.mark.parametrize("hide", ["zero", "saturated"])
def test_a_difference_behind_which_nothing_passes_is_one(hide: str) -> None:
    found = netweave.compare(chain((1, 1), "a.net", hide=hide), chain((1, 1), "b.net", hide=hide, slope=0.5))
    assert found.verdict is Verdict.DIFFERENT
    assert [g.layers_b[0] for g in found.groups if g.status is Status.DIFFERENT] == ["act1"]


@pytest.mark.parametrize("hide", ["zero", "saturated"])
def test_the_same_net_behind_which_nothing_passes_is_not_different(hide: str) -> None:
    found = netweave.compare(chain((1, 1), "a.net", hide=hide), chain((1, 1), "b.net", hide=hide))
    assert found.verdict is not Verdict.DIFFERENT


def test_layers_that_see_zeros_alone_are_tested_on_drawn_inputs() -> None:
    """All filters are zero, so that no input of the net shows the slope."""
    found = netweave.compare(chain((0, 0), "a.net"), chain((0, 0), "b.net", slope=0.5))
    assert found.verdict is Verdict.DIFFERENT
    assert [f.mismatch for f in found.findings] == ["leaky-slope"]
    assert netweave.compare(chain((0, 0), "a.net"), chain((0, 0), "b.net")).verdict is Verdict.UNDECIDED


def test_layers_that_are_too_many_to_be_tested_are_not_decided(monkeypatch) -> None:
    """The output is saturated, so that only the test of each layer alone proves anything."""
    nets = [chain((1, 1), f"{name}.net", hide="saturated") for name in "ab"]
    monkeypatch.setattr(agreement, "is_same", lambda *_: False)  # as of layers that are written differently
    assert netweave.compare(*nets).equal
    monkeypatch.setattr(agreement, "MAX_DRAWN", 0)
    found = netweave.compare(*nets)
    assert found.verdict is Verdict.UNDECIDED
    assert "nothing can be said about" in found.sentence
