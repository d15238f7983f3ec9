"""The store of the ranks, here threads of one process: every wait ends, and names whom it was for."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

pytest.importorskip("torch")

from netweave.errors import PeerError, UsageError
from netweave.training.parallel import heartbeat, world
from netweave.training.parallel.environment import RankEnvironment
from netweave.training.parallel.launcher import store_on_loopback
from netweave.training.parallel.world import Rank, RankStore, StartedAgainError, World


@pytest.fixture
def port(monkeypatch):
    monkeypatch.setattr(world, "_joined", iter([1] * 9))  # the ranks are no processes of their own here
    with store_on_loopback() as held:
        yield held.port


def store_of(rank, port, *, size=2, timeout_s=5.0, is_held=True):
    environment = RankEnvironment(rank, size, rank, True, "127.0.0.1", port, is_held)
    return RankStore(environment, timeout_s=timeout_s)


def stores_of(port, *, size=2, **options):
    """Return the stores of all ranks, which have met."""
    return at_once(*(partial(store_of, rank, port, size=size, **options) for rank in range(size)))


def at_once(*tasks):
    with ThreadPoolExecutor(len(tasks)) as threads:
        return [future.result() for future in [threads.submit(task) for task in tasks]]


def test_values_go_round(port):
    one, two = stores_of(port)
    for _ in range(2):  # the second time under other keys
        assert (
            at_once(lambda: one.gather("a", "x"), lambda: two.gather({"b": 1}, "x")) == [["a", {"b": 1}]] * 2
        )
    assert at_once(lambda: one.share(3, "y"), lambda: two.share(4, "y")) == [3, 3]


def test_what_is_kept_is_that_of_the_first_start(port):
    made = []

    def keep(store, value):
        return store.keep(lambda: made.append(value) or value, "seed")

    for start in range(3):
        one, two = stores_of(port)
        assert at_once(lambda: keep(one, start), lambda: keep(two, -1)) == [0, 0]  # noqa: B023
        assert one.is_restart == (start > 0)
    assert made == [0]


def test_a_rank_that_waits_meets_one_that_was_started_again(port):
    first, second = stores_of(port, timeout_s=60.0)
    kept = first.keys
    with pytest.raises(StartedAgainError, match=r"rank 1 cannot go on: another rank was started again"):
        at_once(lambda: second.gather("b", "x"), lambda: store_of(0, port, timeout_s=0.5))
    again = None

    def start():
        nonlocal again
        again = store_of(0, port)

    at_once(start, second.meet)
    assert at_once(lambda: again.gather("a", "x"), lambda: second.gather("b", "x")) == [["a", "b"]] * 2
    assert not kept.check(["x 1"])


@pytest.mark.timing
def test_a_rank_that_does_not_come_is_named(port):
    store, *_ = stores_of(port, size=3, timeout_s=0.3)
    store.names = ["rank 0", "rank 1 (pid 7 on b)", "rank 2 (pid 8 on c)"]
    began_s = time.monotonic()
    expected = (
        r"rank 0 cannot go on: rank 1 \(pid 7 on b\) and rank 2 \(pid 8 on c\) did not come to 'x' within"
    )
    with pytest.raises(PeerError, match=expected):
        store.gather(1, "x")
    assert time.monotonic() - began_s < 2


@pytest.mark.timing
def test_a_rank_that_has_failed_says_why_and_nobody_waits_for_the_timeout(port):
    one, two = stores_of(port, timeout_s=60.0)
    assert one.failure() == ""
    began_s = time.monotonic()
    with pytest.raises(PeerError, match=r"cannot go on: rank 1 failed: net.prototxt: no such file"):
        at_once(lambda: one.gather(1, "x"), lambda: two.announce_failure("net.prototxt: no such file"))
    two.announce_failure("another")  # what follows from the first is not the cause
    assert one.failure() == "rank 1 failed: net.prototxt: no such file"
    assert time.monotonic() - began_s < 5


@pytest.mark.timing
def test_who_holds_the_store_leaves_last_but_does_not_wait_for_the_dead(monkeypatch):
    """Ranks that lose the store cannot read any more who is to blame."""
    monkeypatch.setattr(world, "_joined", iter([1] * 9))
    monkeypatch.setattr(world, "HOLD_S", 0.6)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    holder, other, _ = stores_of(port, size=3, is_held=False)
    left = []
    began_s = time.monotonic()
    thread = threading.Thread(target=lambda: (holder.leave(), left.append(time.monotonic() - began_s)))
    thread.start()
    other.announce_failure("no such file")
    other.leave()  # at once: it holds nothing
    assert not left
    assert holder.failure() == "rank 1 failed: no such file"
    thread.join()  # rank 2 never leaves
    assert 0.5 < left[0] < 4


@pytest.mark.timing
def test_a_store_that_does_not_answer_ends_the_wait(monkeypatch):
    """torch's own calls block until TCP gives up: their timeout begins with the answer."""
    monkeypatch.setattr(world, "SLACK_S", 0.2)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        began_s = time.monotonic()
        with pytest.raises(
            PeerError, match=r"rank 1 finds no store at 127.0.0.1:\d+ within 1 s; is rank 0 running"
        ):
            store_of(1, listener.getsockname()[1], timeout_s=1.0)
        assert time.monotonic() - began_s < 5


def test_a_store_that_is_gone_is_named(monkeypatch):
    monkeypatch.setattr(world, "SLACK_S", 0.2)
    monkeypatch.setattr(world, "_joined", iter([1] * 9))
    with store_on_loopback() as held:
        _, store = stores_of(held.port)
        del held
    with pytest.raises(
        PeerError, match=r"rank 1 cannot go on: the store of the ranks at 127.0.0.1:\d+ has ended"
    ):
        store.gather(1, "x")


def test_waiting_ends_and_passes_results_and_errors_on():
    assert heartbeat.within(5, lambda: 3) == 3
    with pytest.raises(UsageError, match="so"):
        heartbeat.within(5, lambda: (_ for _ in ()).throw(UsageError("so")))
    stop = threading.Event()
    with pytest.raises(TimeoutError):
        heartbeat.within(0.05, stop.wait)
    stop.set()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [{"a": 1, "b": 2}, {"a": 1, "b": 3}, {"a": 1, "b": 2}],
            r"rank 1 \(pid 1 on h\) has b 3, the others 2; x",
        ),
        ([{"a": 1}, {"a": 1}, {}], r"rank 2 \(pid 2 on h\) has a nothing, the others 1; x"),
        ([{"a": 1}, {"a": 1}, {"a": 1, "c": 0}], r"rank 2 .* has c 0, the others nothing; x"),
    ],
)
def test_the_first_difference_is_named_with_its_rank(monkeypatch, values, message):
    import json

    world = object.__new__(World)
    world.ranks = [Rank(number, "h", number, "cpu", "") for number in range(3)]
    coded = [{what: json.dumps(one) for what, one in own.items()} for own in values]
    monkeypatch.setattr(World, "gather", lambda self, value, what: coded)
    with pytest.raises(UsageError, match=message):
        world.require_all_equal(values[0], "x")
    monkeypatch.setattr(World, "gather", lambda self, value, what: [coded[0]] * 3)
    world.require_all_equal(values[0], "x")
