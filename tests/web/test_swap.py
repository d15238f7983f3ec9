"""A comparison again with the two nets in each other's place."""

from __future__ import annotations

import pytest

from netweave.web.models import Comparison, Net, State


@pytest.fixture
def done(visitor):
    """A comparison that is done, with settings of each kind."""
    owner = visitor()
    key = owner.make_comparison()
    settings = {"seed": 3, "input_shapes_a": {"data": [1, 3, 32, 32]}, "last": "pool1"}
    Comparison.objects.filter(pk=key).update(state=State.DONE, settings=settings)
    return owner, Comparison.objects.get(pk=key)


def test_the_nets_are_swapped_and_the_settings_kept(done):
    owner, first = done
    assert "Swap A and B" in owner.open(f"/comparisons/{first.pk}/").content.decode()
    answer = owner.submit(f"/comparisons/{first.pk}/swap/")
    made = Comparison.objects.exclude(pk=first.pk).get()
    assert answer["Location"] == f"/comparisons/{made.pk}/"
    assert (made.net_a, made.net_b) == (first.net_b, first.net_a)
    assert (made.name_a, made.name_b) == (first.name_b, first.name_a)
    assert made.settings == {"seed": 3, "input_shapes_b": {"data": [1, 3, 32, 32]}, "last": "pool1"}
    assert made.state == State.QUEUED
    assert "Swap A and B" not in owner.open(f"/comparisons/{made.pk}/").content.decode()


def test_what_cannot_be_swapped_says_why(done, visitor):
    owner, first = done
    thief = visitor()
    thief.make_net()
    assert thief.submit(f"/comparisons/{first.pk}/swap/").status_code == 404
    assert owner.client.get(f"/comparisons/{first.pk}/swap/").status_code == 405
    Net.objects.filter(pk=first.net_a_id).delete()
    owner.submit(f"/comparisons/{first.pk}/swap/")
    page = owner.open(f"/comparisons/{first.pk}/").content.decode()
    assert "a net of this comparison was deleted; upload it again" in page
    assert "Swap A and B" not in page
    assert Comparison.objects.count() == 1
