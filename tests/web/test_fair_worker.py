"""Threads of the server: addresses take turns, and requests over which nothing moves are ended."""

from __future__ import annotations

import socket
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netweave.web import fair_worker
from netweave.web.fair_worker import Turns, bytes_moved, is_stuck

THREADS, SHARE, RESERVED = 4, 2, 1


@given(st.lists(st.sampled_from(["a", "b", "c", "done"]), max_size=60))
def test_no_thread_is_idle_that_may_be_had_and_nobody_exceeds_a_share(events):
    """A random history against three rules: the shares, no idle threads, the order within an address."""
    turns: Turns[int] = Turns(threads=THREADS, share=SHARE, reserved=RESERVED)
    waiting: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    running: list[str] = []
    for number, event in enumerate(events):
        if event != "done":
            turns.wait(event, number)
            waiting[event].append(number)
        elif running:
            turns.done(running.pop(0))
        while (request := turns.next()) is not None:
            (address,) = [key for key, line in waiting.items() if request in line]
            assert waiting[address].pop(0) == request
            running.append(address)
        counts = Counter(running)
        assert counts.total() <= THREADS
        assert max(counts.values(), default=0) <= SHARE
        is_reserved = THREADS - counts.total() <= RESERVED
        could = [key for key, line in waiting.items() if line and counts[key] < (1 if is_reserved else SHARE)]
        assert counts.total() == THREADS or not could
        assert all(turns.num_waiting(key) == len(line) for key, line in waiting.items())


def test_some_addresses_together_do_not_take_the_threads_of_a_new_one():
    turns: Turns[str] = Turns(threads=32, share=8, reserved=8)
    for number in range(400):
        turns.wait(f"attacker {number % 4}", "attack")
    while turns.next():
        pass
    turns.wait("visitor", "visit")
    assert turns.next() == "visit"


def test_whoever_has_many_requests_delays_others_by_one_turn():
    turns: Turns[str] = Turns(threads=1, share=1)
    for number in range(100):
        turns.wait("attacker", f"attack {number}")
    order = [turns.next()]
    turns.wait("visitor", "visit")
    turns.done("attacker")
    order.append(turns.next())
    turns.done("attacker" if order[-1] != "visit" else "visitor")
    order.append(turns.next())
    assert "visit" in order


def seconds_until_stuck(moved, *, has_head=True) -> int:
    """Return when a request is found to be stuck of which so many bytes have moved by each second."""
    progress = fair_worker._Progress(0.0, 0, 0.0, 0, has_head)
    return next((second for second in range(1, 500) if is_stuck(progress, moved(second), second)), 500)


@pytest.mark.parametrize(
    ("moved", "expected"),
    [
        (lambda second: 100, 32),  # moves once, and then no more
        (lambda second: second, 61),  # a byte a second
        (lambda second: 7_900 * second, 61),
        (lambda second: 8_100 * second, 500),
        (lambda second: 0 if second < 25 else 1_000_000 * second, 500),  # thinks for a while
        (lambda second: min(second, 100) * 100_000, 131),  # stops in the middle
        (lambda second: None, 500),  # the system does not say
    ],
)
def test_requests_that_do_not_move_are_ended(moved, expected):
    assert seconds_until_stuck(moved) == expected


def test_a_head_has_ten_seconds_however_fast_it_comes():
    assert seconds_until_stuck(lambda second: 1_000_000 * second, has_head=False) == 11


def test_what_has_moved_is_what_was_sent_in_both_directions():
    """The kernel's own count, against what this test sends."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
        with client, accepted:
            before = bytes_moved(accepted)
            if before is None:
                pytest.skip("the system does not count")
            client.sendall(bytes(3_000))
            assert len(_all(accepted, 3_000)) == 3_000
            accepted.sendall(bytes(5_000))
            assert len(_all(client, 5_000)) == 5_000
            client.sendall(b"x")  # carries the acknowledgement of what it has received
            accepted.recv(1)
            assert bytes_moved(accepted) - before == 8_001
    one, other = socket.socketpair()
    with one, other:
        assert bytes_moved(one) is None


def _all(connection: socket.socket, num_bytes: int) -> bytes:
    content = b""
    while len(content) < num_bytes:
        content += connection.recv(num_bytes - len(content))
    return content
