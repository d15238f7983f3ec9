"""Drawn weights keep every tensor at unit scale, however deep the net."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netweave.comparison.execution import memory_budget
from netweave.comparison.execution.tapped_values import ValueStore
from netweave.comparison.execution.unit_scale import LEAST_VARIANCE, SETTLED, keep_unit_scale
from netweave.comparison.metric import Signals, comparable
from netweave.graph import Graph, GraphBuilder, Parameter
from netweave.graph.parameters import drawn

SIZES = {"data": (3, 6, 8, 8)}


def rms(x: np.ndarray) -> float:
    """That of the samples of usual size."""
    return float(np.sqrt(np.mean(np.square(x[:2], dtype=np.float64))))


class Net:
    """A net whose arrays are drawn, its filters too large or too small by a factor."""

    def __init__(self, gain: float) -> None:
        self.builder = GraphBuilder("net", format="onnx", files=("a.net",))
        self.x = self.builder.input("data", SIZES["data"])
        self.gain = gain

    def parameter(self, key: str, shape: tuple[int, ...], role: str = "weight"):
        array = drawn(key, shape, role).numpy()
        array = array * np.float32(self.gain if role == "weight" else 1.0)
        return self.builder.parameter(Parameter(key, shape, role, loaded=False), array)

    def conv(self, x, key: str, *, group: int = 1):
        weight = self.parameter(key, (6, 6 // group, 3, 3))
        return self.builder.add("Conv", [x, weight], {"pads": [1] * 4, "group": group})

    def residual(self, number: int) -> None:
        y = self.builder.add("Relu", [self.conv(self.x, f"b{number}_1")])
        self.x = self.builder.add("Add", [self.x, self.conv(y, f"b{number}_2")])

    def depthwise(self, number: int) -> None:
        y = self.builder.add("Relu", [self.conv(self.x, f"d{number}", group=6)])
        self.x = self.conv(y, f"p{number}")

    def norm(self, number: int) -> None:
        roles = ("gamma", "beta", "mean", "variance")
        arrays = [self.parameter(f"n{number}_{role}", (6,), role) for role in roles]
        self.x = self.builder.add("BatchNormalization", [self.x, *arrays])

    def finish(self) -> Graph:
        return self.builder.finish([self.x])


def scaled(graph: Graph) -> tuple[Signals, dict[str, np.ndarray]]:
    signals = Signals.of(comparable(graph))
    keep_unit_scale(signals, SIZES, frozenset(graph.parameters), ValueStore())
    probe = memory_budget.draw(signals.graph, SIZES, seed=0)
    return signals, memory_budget.run_tapped(signals.graph, probe, signals.names)


def sizes_of_filtered(signals: Signals, tensors: dict[str, np.ndarray]) -> list[float]:
    return [rms(tensors[signals.outputs_of(n)[0]]) for n in signals.nodes if n.op_type == "Conv"]


@pytest.mark.parametrize("gain", [0.05, 1.0, 8.0])
@pytest.mark.parametrize("kind", ["residual", "depthwise"])
def test_sixty_blocks_keep_unit_scale(kind: str, gain: float) -> None:
    net = Net(gain)
    for number in range(60):
        getattr(net, kind)(number)
    graph = net.finish()
    sizes = sizes_of_filtered(*scaled(graph))
    assert len(sizes) == 120
    assert 1 / SETTLED < min(sizes) <= max(sizes) < SETTLED


@settings(max_examples=15)
@given(
    blocks=st.lists(st.sampled_from(["residual", "depthwise", "norm"]), min_size=1, max_size=12),
    gain=st.floats(0.1, 6.0),
)
def test_blocks_in_any_order_keep_unit_scale(blocks: list[str], gain: float) -> None:
    net = Net(gain)
    net.x = net.conv(net.x, "first")
    for number, kind in enumerate(blocks):
        getattr(net, kind)(number)
    sizes = sizes_of_filtered(*scaled(net.finish()))
    assert 1 / SETTLED < min(sizes) <= max(sizes) < SETTLED


def test_variances_are_small_and_gammas_make_up_for_it() -> None:
    net = Net(1.0)
    net.x = net.conv(net.x, "first")
    net.norm(0)
    graph = net.finish()
    before = {name: v.const_value.numpy() for name, v in graph.model.graph.initializers.items()}
    signals, _ = scaled(graph)
    after = {n: v.const_value.numpy() for n, v in signals.graph.model.graph.initializers.items()}
    variance = after["n0_variance"]
    assert (variance >= LEAST_VARIANCE).all()
    assert (variance <= 1).all()
    assert variance.min() < 0.05
    np.testing.assert_allclose(after["n0_gamma"], before["n0_gamma"] * np.sqrt(variance), rtol=1e-6)


def test_arrays_that_are_not_drawn_stay() -> None:
    net = Net(8.0)
    for number in range(3):
        net.residual(number)
    graph = net.finish()
    signals = Signals.of(comparable(graph))
    before = {name: v.const_value.numpy() for name, v in signals.graph.model.graph.initializers.items()}
    keep_unit_scale(signals, SIZES, frozenset({"b1_1"}), ValueStore())
    after = {name: v.const_value.numpy() for name, v in signals.graph.model.graph.initializers.items()}
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert changed == {"b1_1"}
