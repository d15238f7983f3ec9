"""Plans are functions of settings, slices and ranks alone; every rank has the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netweave.errors import UsageError
from netweave.training.parallel.plan import (
    EXCHANGES,
    FIRST_SHARE,
    ExchangeSettings,
    SliceInfo,
    first_slices,
    plan,
    prioritised_order,
)

SLICES = st.lists(
    st.builds(SliceInfo, st.integers(1, 1000), st.integers(0, 9), st.integers(0, 5)), min_size=1
)


@given(SLICES, st.integers(1, 9), st.sampled_from(EXCHANGES))
def test_every_slice_is_exchanged_once_and_has_one_owner(slices, num_ranks, kind):
    found = plan(ExchangeSettings(kind), slices, num_ranks)
    assert sorted(found.order) == list(range(len(slices)))
    assert len(found.owners) == (len(slices) if kind.startswith("owner") else 0)
    assert all(0 <= owner < num_ranks for owner in found.owners)


@given(SLICES)
def test_slices_are_exchanged_as_backward_completes_them(slices):
    stages = [slices[number].stage for number in plan(ExchangeSettings(), slices, 2).order]
    assert stages == sorted(stages, reverse=True)


@given(st.integers(1, 60), st.integers(1, 8))
def test_owners_by_layer_are_those_of_minerva(num_layers, num_ranks):
    """Minerva: layer i of L on device floor(i * n / L) (reference of ``owl.net.trainer``)."""
    slices = [SliceInfo(10, layer, 0) for layer in range(num_layers)]
    owners = plan(ExchangeSettings("owner-by-layer"), slices, num_ranks).owners
    assert owners == tuple(layer * num_ranks // num_layers for layer in range(num_layers))


@given(SLICES, st.integers(1, 8))
def test_owners_of_equal_slices_have_loads_that_differ_by_less_than_a_slice(slices, num_ranks):
    """No owner has more than its share and one slice."""
    owners = plan(ExchangeSettings("owner"), slices, num_ranks).owners
    loads = [
        sum(s.elements for s, o in zip(slices, owners, strict=True) if o == rank) for rank in range(num_ranks)
    ]
    share = sum(one.elements for one in slices) / num_ranks
    assert max(loads) <= share + max(one.elements for one in slices)


@given(st.integers(1, 60), st.integers(1, 8))
def test_owners_of_equal_slices_take_turns(count, num_ranks):
    """Both directions of a link are used at the same time only if neighbours have different owners."""
    owners = plan(ExchangeSettings("owner"), [SliceInfo(10, 0, 0)] * count, num_ranks).owners
    assert owners == tuple(number % num_ranks for number in range(count))


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0.01, 5)), min_size=1, max_size=20), st.integers(1, 4))
def test_an_order_by_priority_takes_each_slice_once(times, in_flight):
    order = prioritised_order([ready for ready, _ in times], [s for _, s in times], in_flight=in_flight)
    assert sorted(order) == list(range(len(times)))


def test_what_the_next_forward_needs_first_overtakes_what_waits():
    """Slices 5, 4, ... 0 become ready one after another on a link three times slower; 0 overtakes 2 and 1."""
    order = prioritised_order([5.0, 4.0, 3.0, 2.0, 1.0, 0.0], [3.0] * 6, in_flight=1)
    assert order == (5, 2, 0, 1, 3, 4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "ring"}, "unknown exchange 'ring'; expected one of blocking, overlapped"),
        ({"compression": "zip"}, "unknown compression 'zip'; expected one of none, fp16"),
        ({"kind": "owner", "compression": "2bit", "threshold": 0.1}, "do not go with exchange 'owner'"),
        ({"compression": "2bit", "threshold": 0.0}, "expected more than 0"),
        ({"compression": "2bit"}, "need a threshold"),
        ({"compression": "fp16", "threshold": 0.1}, "2-bit codes, and only they"),
    ],
)
def test_unknown_settings_are_refused(settings, message):
    with pytest.raises(UsageError, match=message):
        ExchangeSettings(**settings)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=30))
def test_the_first_slices_are_a_beginning_that_holds_its_share(elements):
    chosen = sorted(first_slices(elements))
    assert chosen == list(range(len(chosen)))
    assert sum(elements[: len(chosen)]) * FIRST_SHARE >= sum(elements)
    assert sum(elements[: len(chosen) - 1]) * FIRST_SHARE < sum(elements)
