"""What is kept of the values of a group: the worst place, maps of blocks, counts; against plain NumPy."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import netweave
from netweave.comparison.explain.isolated import BINS, MAP_SIDE, tensor_values
from netweave.comparison.metric import relative_error
from netweave.errors import UsageError
from tests.comparison import test_grouped

SHAPES = hnp.array_shapes(min_dims=1, max_dims=5, max_side=40).filter(lambda shape: np.prod(shape) <= 20_000)


def values_of(a, b):
    return tensor_values(a, b, name_a="a", name_b="b")


@settings(max_examples=60, deadline=None)
@given(shape=SHAPES, seed=st.integers(0, 2**31))
def test_the_place_is_where_the_difference_is_largest_relative_to_its_sample(shape, seed):
    generator = np.random.default_rng(seed)
    a = generator.standard_normal(shape).astype(np.float32)
    b = (a + generator.standard_normal(shape) * 0.1).astype(np.float32)
    found = values_of(a, b)
    rms = np.sqrt((a.reshape(shape[0], -1).astype(np.float64) ** 2).mean(axis=1))
    errors = np.abs(a - b).reshape(shape[0], -1).max(axis=1) / rms
    assert found.place[0] == errors.argmax()
    assert abs(a[found.place] - b[found.place]) == np.abs(a - b)[found.place[0]].max()
    assert (found.value_a, found.value_b) == (a[found.place], b[found.place])
    assert found.rms == pytest.approx(rms[found.place[0]], rel=1e-5)
    if found.channel_errors:
        assert len(found.channel_errors) == shape[1]
        # the metric that the verdict is made with
        assert max(found.channel_errors) == pytest.approx(relative_error(a, b), rel=1e-4)


@settings(max_examples=60, deadline=None)
@given(shape=SHAPES, seed=st.integers(0, 2**31))
def test_the_maps_hold_the_worst_of_each_block_of_the_worst_channel(shape, seed):
    generator = np.random.default_rng(seed)
    a, b = (generator.standard_normal(shape).astype(np.float32) for _ in range(2))
    found = values_of(a, b)
    assert max(found.map_a.shape) <= MAP_SIDE
    difference = np.abs(found.map_a - found.map_b)
    assert difference[found.worst] == difference.max() == abs(a[found.place] - b[found.place])
    assert np.isin(found.map_a, a).all()
    assert np.isin(found.map_b, b).all()
    if found.block == (1, 1) and len(shape) == 4:
        sample, channel = found.place[:2]
        np.testing.assert_array_equal(found.map_a, a[sample, channel])
        np.testing.assert_array_equal(found.map_b, b[sample, channel])


@settings(max_examples=40, deadline=None)
@given(a=hnp.arrays(np.float32, (2, 3, 5, 7), elements=st.floats(-1e6, 1e6, width=32)))
def test_counts_are_those_of_numpys_histogram(a):
    b = a + 1
    found = values_of(a, b)
    for x, counts in ((a, found.counts_a), (b, found.counts_b)):
        assert sum(counts) == x.size
        edges = np.linspace(found.low, found.high, BINS + 1)
        # what lies on an edge, up to rounding, may be on either side of it
        assert abs(np.array(counts).cumsum() - np.searchsorted(np.sort(x.ravel()), edges[1:])).max() <= x.size
    assert (found.low, found.high) == (a.min(), b.max())


def test_a_value_that_one_net_alone_has_as_a_number_is_the_worst():
    a = np.ones((1, 2, 3, 3), np.float32)
    b = a.copy()
    a[0, 0, 0, 0] = 1000
    b[0, 1, 2, 1] = np.nan
    found = values_of(a, b)
    assert found.place == (0, 1, 2, 1)
    assert np.isnan(found.value_b)
    assert found.channel_errors[1] == np.inf


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.zeros((1, 2)), np.zeros((1, 3))),
        (np.zeros((1, 0)), np.zeros((1, 0))),
        (np.array([["x"]]), np.array([["x"]])),
    ],
)
def test_what_cannot_be_subtracted_has_no_values(a, b):
    assert values_of(a, b) is None


def test_groups_have_values_where_they_are_asked_for_and_the_json_stays_as_it_was(tmp_path):
    from tests.viewer import nets

    nets.write_example(tmp_path)
    nets.write_faulty(tmp_path)
    pair = tmp_path / "leaves.prototxt", tmp_path / "faulty.prototxt"
    plain, kept = netweave.compare(*pair), netweave.compare(*pair, keep_values=True)
    assert not any(group.values for group in plain.groups)
    tested = [group for group in kept.groups if group.is_pair]
    assert all(group.values is not None for group in tested)
    by_layer = {group.layers_a[0]: group for group in tested}
    assert by_layer["conv1"].values.channel_errors == (0.0,) * 16
    wrong = by_layer["bn1"]
    assert max(wrong.values.channel_errors) == pytest.approx(wrong.error, rel=1e-4)
    seconds = {"seconds": None}
    assert plain.to_json() | seconds == kept.to_json() | seconds
    json.dumps(kept.to_json())


def told_verdicts(a, b):
    """Compare two nets; return what was told on the way, in order, and the result."""
    told = []
    found = netweave.compare(a, b, keep_values=True, progress=told.append, on_verdict=told.append)
    return told, found


def test_the_verdict_is_told_before_values_are_kept(tmp_path):
    from tests.viewer import nets

    nets.write_example(tmp_path)
    nets.write_faulty(tmp_path)
    told, found = told_verdicts(tmp_path / "leaves.prototxt", tmp_path / "faulty.prototxt")
    (early,) = (entry for entry in told if not isinstance(entry, str))
    assert told.index(early) < told.index("keep values")
    assert (early.verdict, early.sentence) == (found.verdict, found.sentence)
    assert early.findings == found.findings
    assert not any(group.values for group in early.groups)
    assert any(group.values for group in found.groups)


def test_a_verdict_that_may_yet_change_is_not_told():
    """Where one net has branches and differs, it is compared once more, branch by branch."""
    net = test_grouped.Net("a").finish(test_grouped.grouped)
    port = test_grouped.Net("b").finish(test_grouped.branches())
    told, found = told_verdicts(net, port)
    assert told.count("align") > 1
    early = [entry for entry in told if not isinstance(entry, str)]
    assert [(one.verdict, one.findings) for one in early] == [(found.verdict, found.findings)]
    later = told[told.index(early[0]) :]
    assert [entry for entry in later if isinstance(entry, str)] == ["keep values"]


def test_another_seed_draws_other_inputs_and_more_samples_are_drawn_where_the_batch_is_open(tmp_path):
    from tests.viewer import nets

    nets.write_example(tmp_path)
    nets.write_faulty(tmp_path)
    pair = tmp_path / "leaves.prototxt", tmp_path / "faulty.prototxt"
    errors = {netweave.compare(*pair, seed=seed).error for seed in (0, 0, 7)}
    assert len(errors) == 2
    many = netweave.compare(nets.residual(2), nets.residual(2), num_samples=5)
    assert many.verdict is netweave.compare(nets.residual(2), nets.residual(2)).verdict
    with pytest.raises(UsageError, match="num_samples is 0, expected a whole number >= 1"):
        netweave.compare(*pair, num_samples=0)
