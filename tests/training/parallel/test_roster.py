"""Ranks that start, die and are started again in any order: all train with the same, living ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

from netweave.training.parallel.roster import Roster
from tests.training.parallel.stores import MemoryStore


def look_around(rosters, rounds=6):
    """Let ranks look in turn until all have met, or for some rounds; return what each has found."""
    for _ in range(rounds):
        found = [roster.look() for roster in rosters]
        if all(found):
            return found
    return found


def test_ranks_meet_when_the_last_has_come():
    store = MemoryStore()
    rosters = [Roster(store, rank, 3) for rank in (2, 0)]
    assert look_around(rosters) == ["", ""]
    assert rosters[0].missing() == [1]
    (name, *others) = look_around([*rosters, Roster(store, 1, 3)])
    assert name
    assert set(others) == {name}


@given(
    size=st.integers(1, 4),
    events=st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["look", "again"])), max_size=40),
)
def test_restarts_in_any_order_lead_to_one_list_of_living_ranks(size, events):
    """Whoever has met has met with processes that had all read the same list; in the end all meet."""
    store = MemoryStore()
    rosters: list[Roster | None] = [None] * size
    numbers: dict[str, set[str]] = {}  # of the processes that go on with a list
    for rank, event in events:
        if rank >= size:
            continue
        roster = rosters[rank]
        if event == "again" or roster is None:
            rosters[rank] = Roster(store, rank, size)
        elif name := roster.look():
            numbers.setdefault(name, set()).add(f"{rank} {roster._number}")
    for rank in range(size):  # the last start of all, as when whoever started them starts all again
        rosters[rank] = Roster(store, rank, size)
    living = [roster for roster in rosters if roster is not None]
    names = look_around(living)
    assert names[0]
    assert set(names) == {names[0]}
    assert names[0] not in numbers
    for members in numbers.values():
        assert len({member.split()[0] for member in members}) == len(members)


def test_a_rank_that_is_started_again_while_others_still_meet_joins_them():
    store = MemoryStore()
    first, second, dead = (Roster(store, rank, 3) for rank in range(3))
    look_around([first, second], rounds=2)  # the list holds the dead one, which never reads it
    assert first.missing() == [2]
    del dead
    names = look_around([first, second, Roster(store, 2, 3)])
    assert names[0]
    assert set(names) == {names[0]}


def test_a_rank_started_again_does_not_go_on_with_the_list_of_its_predecessor():
    store = MemoryStore()
    before = [Roster(store, rank, 2) for rank in range(2)]
    (name, _) = look_around(before)
    again = Roster(store, 1, 2)
    assert look_around([again]) == [""]
    first_again = Roster(store, 0, 2)
    assert name not in look_around([first_again, again])


def test_a_first_rank_with_a_successor_publishes_no_more():
    store = MemoryStore()
    old = Roster(store, 0, 2)
    new, other = Roster(store, 0, 2), Roster(store, 1, 2)
    for _ in range(4):
        assert old.look() == ""
        new.look()
        other.look()
    assert new.look() == other.look() != ""


def test_meeting_costs_as_much_for_each_rank_however_many_there_are():
    def values_for_each(size):
        store = MemoryStore()
        look_around([Roster(store, rank, size) for rank in range(size)])
        return store.values / size

    assert values_for_each(1024) <= values_for_each(64) * 1.1
