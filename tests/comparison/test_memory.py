"""Comparing within a limit of memory: the same result, with what is held counted from outside."""

from __future__ import annotations

import gc
import re
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netweave
from netweave.comparison import assessment, compare, input_choice
from netweave.comparison.execution import memory_budget, tapped_values
from netweave.comparison.execution.memory_budget import MemoryBudget, cut_net
from netweave.comparison.execution.tapped_values import TappedValues, ValueStore
from netweave.comparison.metric import Signals, comparable
from netweave.errors import UsageError
from netweave.graph import GraphBuilder, Layer, Parameter
from netweave.runtime.backends import prepare, prepare_nodes
from tests.comparison.nets import Form, build, without

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZES = {"data": (3, 3, 11, 11)}

LARGEST = 3 * 8 * 11 * 11 * 4
"""Bytes of the largest value of the net at these sizes."""

LIMIT = 15_000


def budget_of(value_bytes: int) -> MemoryBudget:
    budget = MemoryBudget(-(-3 * value_bytes // 2), taken_bytes=0, is_promised=False)
    assert budget.value_bytes == value_bytes
    return budget


def store_of(num_bytes: int) -> ValueStore:
    return ValueStore(budget_of(num_bytes))


def dense_net(layers: int):
    """Each layer reads all layers before it, so that much is read across any cut."""
    builder = GraphBuilder("dense", format="onnx")
    generator = np.random.default_rng(3)
    x = builder.input("data", (1, 3, 9, 9))
    for index in range(layers):
        filters = generator.standard_normal((2, 3 + 2 * index, 3, 3), dtype=np.float32) / 8
        weight = builder.parameter(Parameter(f"w{index}", filters.shape), filters)
        y = builder.add("Relu", [builder.add("Conv", [x, weight], {"pads": [1] * 4})])
        x = builder.add("Concat", [x, y], {"axis": 1})
    return builder.finish([x])


def net_read_late(layers: int):
    """The output reads each layer, so that all slices hold something that a later one reads."""
    builder = GraphBuilder("late", format="onnx")
    x = builder.input("data", (1, 8, 9, 9))
    made = []
    for _ in range(layers):
        for operator in ("Neg", "Abs", "Sin"):
            x = builder.add(operator, [x])
        made.append(x)
    return builder.finish([builder.add("Concat", made, {"axis": 1})])


@dataclass
class Live:
    """Counts the bytes of the arrays that runs made and that are still there."""

    num_bytes: int = 0
    peak: int = 0
    runs: list[int] = field(default_factory=list)

    def prepare(self, graph, **options):
        return self._counting(prepare(graph, **options), len(graph.nodes))

    def prepare_nodes(self, graph, nodes, **options):
        return self._counting(prepare_nodes(graph, nodes, **options), len(nodes))

    def _counting(self, runner, num_nodes):
        live = self

        class Counting:
            def run(self, inputs):
                made = {name: np.array(x) for name, x in runner.run(inputs).items()}
                live.runs.append(num_nodes)
                for x in made.values():
                    live.num_bytes += x.nbytes
                    weakref.finalize(x, live.gone, x.nbytes)
                live.peak = max(live.peak, live.num_bytes)
                return made

        return Counting()

    def gone(self, num_bytes: int) -> None:
        self.num_bytes -= num_bytes


@pytest.fixture
def live(monkeypatch) -> Iterator[Live]:
    """Counts while Python searches for cycles as often as it does for a user, and not as in other tests."""
    seldom = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    counter = Live()
    monkeypatch.setattr(tapped_values, "prepare", counter.prepare)
    monkeypatch.setattr(tapped_values, "prepare_nodes", counter.prepare_nodes)
    yield counter
    gc.set_threshold(*seldom)


@pytest.fixture
def limited(monkeypatch):
    """Comparisons whose values may take so many bytes, whatever the process takes."""

    def limit(num_bytes: int) -> None:
        budget = budget_of(num_bytes)
        monkeypatch.setattr(MemoryBudget, "of", classmethod(lambda cls, memory, *nets: budget))

    return limit


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(data=st.data(), limit=st.integers(1, 100_000), is_dense=st.booleans())
def test_values_are_those_of_one_run_whatever_is_asked_for_in_whatever_order(data, limit, is_dense):
    graph = comparable(dense_net(5) if is_dense else build())
    graph = memory_budget.resized(graph, {"data": (3, 3, 9, 9) if is_dense else SIZES["data"]})
    signals = Signals.of(graph)
    probe = memory_budget.draw(graph, {"data": (3, 3, 9, 9) if is_dense else SIZES["data"]}, seed=1)
    whole = memory_budget.run_tapped(graph, probe, signals.names)
    values = TappedValues(graph, probe, signals.names, store_of(limit))
    assert set(values) == set(whole)
    for name in data.draw(st.lists(st.sampled_from(sorted(whole)), max_size=25)):
        assert values.shape_of(name) == whole[name].shape
        np.testing.assert_array_equal(values[name], whole[name])


def test_what_is_held_stays_within_the_limit(live):
    graph = memory_budget.resized(comparable(build()), SIZES)
    signals, probe = Signals.of(graph), memory_budget.draw(graph, SIZES, seed=1)
    TappedValues(graph, probe, signals.names, ValueStore())
    assert len(live.runs) == 1
    total, live.peak, live.runs = live.peak, 0, []
    store = store_of(LIMIT)
    values = TappedValues(graph, probe, signals.names, store)
    for name in [*signals.names, *signals.names]:
        assert values[name].shape == values.shape_of(name)
    assert len(live.runs) > 2
    assert live.num_bytes == store.num_bytes
    assert store.peak_bytes <= LIMIT
    assert live.peak <= LIMIT + LARGEST < total  # what a slice reads is in use while it runs


def test_two_nets_in_step_run_each_slice_once_a_pass(live):
    """What later slices read, which is much here, does not drive out the slices that are looked at."""
    sizes = {"data": (1, 8, 9, 9)}
    graph = memory_budget.resized(net_read_late(24), sizes)
    names = [name for name in Signals.of(graph).names if "Concat" not in name]
    tensor = 8 * 9 * 9 * 4
    store = store_of(25 * tensor)
    probe = memory_budget.draw(graph, sizes, seed=1)
    a, b = (TappedValues(graph, probe, names, store) for _ in range(2))
    for name in names:
        assert a[name].shape == (1, 8, 9, 9)
    num_slices = len(live.runs)
    assert num_slices > 10
    live.runs.clear()
    for name in names:
        for _ in range(3):
            np.testing.assert_array_equal(a[name], b[name])
    assert len(live.runs) <= 2 * num_slices


def test_a_net_of_more_slices_than_python_may_nest_calls():
    """Its last value is asked for first."""
    builder = GraphBuilder("deep", format="onnx")
    x = builder.input("data", (1, 8))
    for _ in range(1500):
        x = builder.add("Neg", [x])
    graph = memory_budget.resized(builder.finish([x]), {"data": (1, 8)})
    probe = memory_budget.draw(graph, {"data": (1, 8)}, seed=1)
    values = TappedValues(graph, probe, Signals.of(graph).names, store_of(4 * 32))
    np.testing.assert_array_equal(values[x.name], probe.inputs["data"])


def test_what_a_run_holds_goes_with_it(live):
    graph = memory_budget.resized(comparable(build()), SIZES)
    signals, probe = Signals.of(graph), memory_budget.draw(graph, SIZES, seed=1)
    store = ValueStore()
    values = TappedValues(graph, probe, signals.names, store)
    assert store.num_bytes == live.num_bytes > 0
    del values
    assert store.num_bytes == live.num_bytes == 0


def test_a_slice_makes_no_more_than_it_may_and_all_slices_make_all():
    graph = memory_budget.resized(comparable(dense_net(6)), {"data": (2, 3, 9, 9)})
    signals = Signals.of(graph)
    wanted = {name: value for name, value in graph.values().items() if value.producer() is not None}
    probe = memory_budget.draw(graph, {"data": (2, 3, 9, 9)}, seed=0)
    made = {name: x.nbytes for name, x in memory_budget.run_tapped(graph, probe, signals.names).items()}
    slices = cut_net(graph, wanted, batch=2, max_bytes=20_000)
    assert len(slices) > 2
    known = {"data"}
    for part in slices:
        assert set(part.inputs) <= known
        assert part.num_bytes == sum(made[name] for name in part.outputs if name in made)
        assert part.num_bytes <= 20_000
        known |= set(part.outputs)
    assert known == set(wanted) | {"data"}
    assert cut_net(graph, wanted, batch=2, max_bytes=None)[0].num_bytes == sum(
        size for name, size in made.items() if name != "data"
    )


def test_a_net_with_random_operators_is_computed_once():
    builder = GraphBuilder("net", format="onnx")
    x = builder.input("data", (1, 8))
    for _ in range(4):
        x = builder.add("Add", [builder.add("Relu", [x]), builder.add("RandomNormalLike", [x])])
    graph = memory_budget.resized(builder.finish([x]), {"data": (1, 8)})
    wanted = {name: value for name, value in graph.values().items() if value.producer() is not None}
    assert len(cut_net(graph, wanted, batch=1, max_bytes=8)) == 1


FORMS = {
    "equal": Form(),
    "another layout": Form(channels_last=True, swapped=True, flatten="HWC"),
    "folded": Form(fold=True),
    "a slope": Form(slope=0.3),
    "padding and a dropped layer": Form(pads=(0, 0, 2, 2), drop=frozenset({"relu2"})),
    "damaged filters": Form(changed={"conv1": ((0, 0, 0, 0), 1.0), "fc": ((3, 5), 0.5)}),
    "pool and softmax": Form(rounding="floor", softmax_axis=0),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("weights", ["both", "one"])
def test_the_result_does_not_depend_on_the_limit(form, weights, limited, live):
    def result():
        port = build(form)
        return compare(build(), without(port) if weights == "one" else port, keep_values=True)

    limited(10**9)
    free = result()
    peak, live.peak, live.runs[:] = live.peak, 0, []
    limited(LIMIT)
    tight = result()
    assert tight.to_json() | {"seconds": None} == free.to_json() | {"seconds": None}
    assert [group.values is None for group in tight.groups] == [group.values is None for group in free.groups]
    # besides what is held, a test of a layer has two tensors in use, and a slice that is run has one
    assert live.peak <= LIMIT + 3 * LARGEST < peak


def test_what_depends_on_the_input_is_asked_while_values_are_there(limited, live, monkeypatch):
    """The review looks at every signal of A, which a net in slices would have to compute again."""
    runs_of_review = []
    review = assessment.review

    def counted(*args, **options):
        before = len(live.runs)
        try:
            return review(*args, **options)
        finally:
            runs_of_review.append(len(live.runs) - before)

    monkeypatch.setattr(assessment, "review", counted)
    limited(LIMIT)
    assert compare(build(), build(), num_samples=3).equal
    assert set(runs_of_review) == {0}
    assert len(live.runs) > 10


def long_net(layers: int, *, without: int | None = None):
    """A chain of products, each of which holds other values; one of them may be missing."""
    builder = GraphBuilder(f"long{without}", format="onnx")
    generator = np.random.default_rng(5)
    x = builder.input("data", (1, 8, 11, 11))
    for index in range(layers):
        factors = generator.uniform(0.7, 1.4, (8, 1, 1)).astype(np.float32)
        if index == without:
            continue
        name = f"w{index}"
        with builder.layer(Layer(name, name, "Mul")):
            x = builder.add("Mul", [x, builder.parameter(Parameter(name, factors.shape), factors)])
            x = builder.add("Sin", [x])
    return builder.finish([x])


@pytest.mark.parametrize("num_held", [64, 24])
@pytest.mark.parametrize(("without", "is_equal"), [(None, True), (30, False)])
def test_each_slice_is_computed_once_while_values_are_matched(
    limited, live, monkeypatch, without, is_equal, num_held
):
    """Also where less is held than the signals of A that are known ahead of B's."""
    slices, runs = [], []
    cut, match = tapped_values.cut_net, input_choice.match_values

    def counted_cut(*args, **options):
        slices.append(len(cut(*args, **options)))
        return cut(*args, **options)

    def counted_match(*args):
        before = len(live.runs)
        match(*args)
        runs.append(len(live.runs) - before)

    at_once = compare(long_net(50), long_net(50, without=without), one_size=True)
    monkeypatch.setattr(tapped_values, "cut_net", counted_cut)
    monkeypatch.setattr(input_choice, "match_values", counted_match)
    limited(num_held * 3 * 8 * 11 * 11 * 4)
    found = compare(long_net(50), long_net(50, without=without), one_size=True)
    assert found.equal == is_equal
    assert slices[0] > 5
    assert runs[0] == slices[0] + slices[1]
    assert [(f.layer_a, f.cause) for f in found.findings] == [(f.layer_a, f.cause) for f in at_once.findings]


def test_a_promised_limit_that_is_too_small_is_an_error_before_anything_is_run(live, monkeypatch):
    monkeypatch.setattr(memory_budget, "process_bytes", lambda: 200_000_000)
    with pytest.raises(
        UsageError, match=r"260 MB of memory are too little .* layer 'bn1'.* needs .* allow 270 MB"
    ):
        compare(build(), build(), memory=260_000_000)
    assert not live.runs
    with pytest.raises(UsageError) as refused:
        compare(build(), build(), memory=200_000_000)
    (allowed,) = re.findall(r"allow (\d+ MB)", str(refused.value))
    assert compare(build(), build(), memory=int(allowed.split()[0]) * 10**6).equal


def test_a_limit_is_a_size():
    with pytest.raises(UsageError, match="memory is 'much', expected a size"):
        netweave.compare(build(), build(), memory="much")
    with pytest.raises(UsageError, match="memory is 0, expected a size"):
        netweave.compare(build(), build(), memory=0)


def test_by_default_half_of_the_free_memory_may_be_taken(monkeypatch):
    monkeypatch.setattr(memory_budget, "process_bytes", lambda: 300_000_000)
    taken = MemoryBudget.of(None, build()).taken_bytes
    for free, expected in ((10**9, 5 * 10**8), (10**12, memory_budget.USUAL_BYTES - taken)):
        monkeypatch.setattr(memory_budget, "free_bytes", lambda free=free: free)
        assert MemoryBudget.of(None, build()).total_bytes == taken + expected


def test_the_limit_of_a_control_group_counts(tmp_path):
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    assert memory_budget._free_of_group(tmp_path) == 600_000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory_budget._free_of_group(tmp_path) is None
