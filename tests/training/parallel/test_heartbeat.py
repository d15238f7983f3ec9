"""Beats are judged without threads, stores or clocks."""

from __future__ import annotations

import json

import pytest

from netweave.training.parallel.heartbeat import SLOW_BEATS, Heartbeat, PeerWatch
from tests.training.parallel.stores import MemoryStore

NAMES = ["rank 0", "rank 1", "rank 2"]


def beat(count, iteration=0, collectives=0, updates=0, compute_s=0.0):
    return json.dumps([count, iteration, collectives, updates, compute_s]).encode()


def beats_of_updates(compute_s, updates):
    """Return the beats at each second of ranks that do so many updates in a second.

    Args:
        compute_s: The seconds that a rank computes for an update in a second, by rank and second.
        updates: Updates in a second; all ranks wait for each other, so that all do as many.
    """

    def beats_at(now_s):
        sums = [sum(updates * compute_s(rank, second) for second in range(now_s)) for rank in range(3)]
        return [beat(now_s, updates=1 + now_s * updates, compute_s=total) for total in sums]

    return beats_at


def run(watch, beats_at):
    return [message for now_s in range(20) for message in watch.note(beats_at(now_s), float(now_s))]


def test_a_rank_that_stands_still_is_named_within_ten_seconds_and_when_it_comes_back():
    watch = PeerWatch(0, NAMES, 0.0, 60.0)
    beats = [beat(0)] * 3
    messages = []
    for now_s in range(30):
        beats = [beat(now_s, 7) if rank != 2 or not 3 <= now_s < 20 else beats[rank] for rank in range(3)]
        messages += [(now_s, text) for text in watch.note(beats, float(now_s))]
    assert [now_s for now_s, _ in messages] == [8, 20]
    assert messages[0][1].startswith("rank 2 has not answered for 6 s (in iteration 7)")
    assert messages[1][1] == "rank 2 answers again"


def test_the_first_rank_that_answers_speaks():
    """Rank 0 stands still: rank 1 says so, and that it is back; rank 2 is silent, as is rank 0 itself."""

    def beats_at(now_s):
        return [beat(0 if now_s < 14 else now_s), beat(now_s), beat(now_s)]

    messages = run(PeerWatch(1, NAMES, 0.0, 60.0), beats_at)
    assert len(messages) == 2
    assert messages[1] == "rank 0 answers again"
    assert not run(PeerWatch(2, NAMES, 0.0, 60.0), beats_at)


def test_a_slow_rank_is_named_while_it_is_slow():
    beats_at = beats_of_updates(lambda rank, second: 0.12 if rank == 1 and second < 10 else 0.04, 5)
    assert run(PeerWatch(0, NAMES, 0.0, 60.0), beats_at) == [
        "rank 1 is slow: it computes for 0.12 s per update, the others for 0.04 s",
        "rank 1 is no longer slow",
    ]


def test_a_rank_is_slow_on_average_over_the_updates_between_two_beats():
    """One that loses its processor now and then computes most updates as fast as the others."""
    beats_at = beats_of_updates(lambda rank, _: (9 * 0.001 + 0.06) / 10 if rank == 2 else 0.001, 100)
    (message,) = run(PeerWatch(0, NAMES, 0.0, 60.0), beats_at)
    assert message == "rank 2 is slow: it computes for 0.0069 s per update, the others for 0.001 s"


def test_updates_longer_than_a_beat_are_judged_when_they_end():
    """A beat without a further update neither makes a rank slow nor ends that it is."""

    def beats_at(now_s):
        done = now_s // 4
        return [
            beat(now_s, updates=1 + done, compute_s=done * (3.9 if rank == 0 else 2.0)) for rank in range(3)
        ]

    messages = run(PeerWatch(0, NAMES, 0.0, 60.0), beats_at)
    assert messages == ["rank 0 is slow: it computes for 3.9 s per update, the others for 2 s"]


def test_a_single_slow_beat_is_not_named():
    def compute_s(rank, second):
        return 0.12 if rank == 1 and second % (SLOW_BEATS + 1) == 0 else 0.04

    assert not run(PeerWatch(0, NAMES, 0.0, 60.0), beats_of_updates(compute_s, 5))


def test_what_costs_the_run_little_is_not_named():
    """Three times as long for 0.01 s of each second: the link or the input takes the rest."""
    beats_at = beats_of_updates(lambda rank, _: 0.003 if rank == 1 else 0.001, 5)
    assert not run(PeerWatch(0, NAMES, 0.0, 60.0), beats_at)


def test_the_rank_that_has_begun_the_fewest_collectives_is_waited_for():
    watch = PeerWatch(0, NAMES, 0.0, 60.0)
    watch.note([beat(1, 5, 100), beat(1, 5, 100), beat(1, 4, 97)], 0.0)
    assert watch.waiting_for(1.0) == ["rank 2 is behind, in iteration 4"]
    assert watch.waiting_for(9.0)[0].startswith("rank 1 has not answered for 9 s")


def test_when_a_connection_was_closed_only_a_silent_rank_is_to_blame():
    """Beats are a second old: who has begun fewer collectives in them need not be who has ended."""
    watch = PeerWatch(0, NAMES, 0.0, 60.0)
    watch.note([beat(1, 5, 100), beat(1, 5, 97), beat(1, 5, 100)], 0.0)
    assert watch.waiting_for(1.0, has_ended=True) == []
    watch.note([beat(2, 5, 100), beat(2, 5, 97), beat(1, 5, 100)], 2.0)
    watch.note([beat(4, 5, 100), beat(4, 5, 97), beat(1, 5, 100)], 4.0)
    (blamed,) = watch.waiting_for(4.0, has_ended=True)
    assert blamed.startswith("rank 2 has not answered for 4 s")


def test_a_rank_that_is_cut_off_says_so_and_blames_nobody():
    """Of its own beats it hears nothing either."""
    watch = PeerWatch(1, NAMES, 0.0, 60.0, holder="the store at a:1")
    messages = []
    for now_s in range(30):
        heard = now_s if not 3 <= now_s < 20 else 2
        messages += [(now_s, text) for text in watch.note([beat(heard)] * 3, float(now_s))]
    assert messages == [
        (8, "the store at a:1 has not answered rank 1 for 6 s; is the link down? The run waits up to 60 s"),
        (20, "the store at a:1 answers rank 1 again"),
    ]


def test_a_rank_that_was_stopped_itself_blames_nobody():
    """SIGSTOP for 30 s, SIGCONT: the beats that it knows are old, and those of all others go on."""
    watch = PeerWatch(1, NAMES, 0.0, 60.0)
    messages = []
    for now_s in [0, 1, 2, 3, 33, 34, 35, 36]:
        heard = 3 if now_s == 33 else now_s
        messages += watch.note([beat(heard)] * 3, float(now_s))
        assert now_s < 33 or not watch.waiting_for(float(now_s))
    assert messages == []


# The report of the rank that reads all beats.


class Group:
    """Heartbeats without threads, over one store, by a clock of its own."""

    def __init__(self, size, monkeypatch):
        self.now_s, self.store = 0.0, MemoryStore()
        self.said = []
        heartbeat = "netweave.training.parallel.heartbeat"
        monkeypatch.setattr(f"{heartbeat}.time.monotonic", lambda: self.now_s)
        monkeypatch.setattr(f"{heartbeat}.distributed.PrefixStore", lambda prefix, store: store)
        monkeypatch.setattr(f"{heartbeat}.threading.Thread.start", lambda thread: None)
        self.names = [f"rank {rank}" for rank in range(size)]
        self.holder = "the store"
        self.ranks = [
            Heartbeat(self, rank, timeout_s=60.0, tell=lambda text, rank=rank: self.said.append((rank, text)))
            for rank in range(size)
        ]

    def second_connection(self):
        return self.store

    def read_failure(self, connection):
        return ""

    def beat(self, seconds, *, without=()):
        for _ in range(seconds):
            self.now_s += 1.0
            for rank, heartbeat in enumerate(self.ranks):
                if rank not in without:
                    heartbeat.progress.iteration += 1
                    heartbeat._exchange_beats()
                    heartbeat._watch_once()


def test_all_learn_from_one_rank_who_does_not_answer(monkeypatch):
    group = Group(4, monkeypatch)
    group.beat(5)
    group.beat(5, without=[2])
    for rank in (0, 1, 3):
        said = group.ranks[rank].waiting_for(has_ended=True)
        assert said.startswith("rank 2 has not answered for ")
        assert said.endswith("s, last seen in iteration 5")
    group.beat(3, without=[2])
    assert [rank for rank, _ in group.said] == [0]
    group.beat(2)
    assert group.said[1] == (0, "rank 2 answers again")
    assert group.ranks[2].waiting_for(has_ended=True) == ""


@pytest.mark.parametrize(("silent", "speaker"), [([0], 1), ([0, 1], 2)])
def test_the_next_rank_reads_the_beats_when_the_first_does_not_answer(monkeypatch, silent, speaker):
    group = Group(4, monkeypatch)
    group.beat(5)
    group.beat(12, without=silent)
    assert [(rank, text.split(" (")[0]) for rank, text in group.said] == [
        (speaker, f"rank {rank} has not answered for 6 s") for rank in silent
    ]
    assert "rank 0 has not answered for" in group.ranks[3].waiting_for(has_ended=True)
    group.said.clear()
    group.beat(10)
    assert group.said == [(speaker, f"rank {rank} answers again") for rank in silent]
    assert [heartbeat._beats is not None for heartbeat in group.ranks] == [True, False, False, False]


def test_beats_cost_as_much_for_each_rank_however_many_there_are(monkeypatch):
    """Each sets its beat, looks for the report and reads it; the first reads a beat of each, and reports.

    Measured with the store of torch 2.13 in a process of its own: 57 ms of its processor time for each
    second of 1,024 ranks. When each rank read all beats, it took 1.3 s.
    """
    for size in (64, 1024):
        group = Group(size, monkeypatch)
        group.beat(3)
        calls, values = group.store.calls, group.store.values
        group.beat(1)
        assert group.store.calls - calls <= 3 * size + 2
        assert group.store.values - values <= 4 * size + 1
