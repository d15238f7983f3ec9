"""Damaged answers of a server with HBase's interface: records or a NetweaveError, in little time and memory.

The answers of an undamaged conversation are recorded once. A server then plays them back, one for each
request, with one of them damaged, and hangs up behind the last.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netweave.data import open_source
from netweave.data.sources import hbase
from netweave.errors import NetweaveError
from netweave.job import DataSource
from tests.data.make import pictures
from tests.data.thrift_gateway import gateway
from tests.hostile.mutations import damaged_bytes
from tests.hostile.test_mutations import limited

cv2 = pytest.importorskip("cv2")

IMAGES = pictures(3, height=5, width=6)


def read_all(port):
    path = f"hbase://127.0.0.1:{port}/photos?image=image:data&label=image:label"
    with open_source(DataSource("hbase", ("data", "label"), 1, {"path": path})) as source:
        return [source.read(index) for index in range(min(len(source), 5))]


@contextlib.contextmanager
def serving(answer):
    """Serve connections one after another; ``answer`` returns what follows a request, or None to hang up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection, contextlib.suppress(OSError):
                    numbers = iter(range(100))
                    while request := connection.recv(1 << 16):
                        found = answer(next(numbers), request)
                        if found is None:
                            break
                        connection.sendall(found)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(5)


@cache
def answers():
    """Return the answers of a gateway while a table of three rows is read, by passing requests on to it."""
    rows = {
        f"photo{index}".encode(): {
            b"image:data": cv2.imencode(".png", pixels)[1].tobytes(),
            b"image:label": str(index).encode(),
        }
        for index, pixels in enumerate(IMAGES)
    }
    recorded = []
    with gateway({b"photos": rows}) as store, socket.create_connection(("127.0.0.1", store.port)) as behind:

        def pass_on(number, request):
            behind.sendall(request)
            recorded.append(behind.recv(1 << 16))
            return recorded[-1]

        with serving(pass_on) as port:
            assert len(read_all(port)) == len(IMAGES)
    return tuple(recorded)


def play_back(played):
    with serving(lambda number, _: played[number] if number < len(played) else None) as port:
        return read_all(port)


def test_the_undamaged_conversation_is_read():
    assert [float(label) for _, label in play_back(answers())] == [0, 1, 2]


@st.composite
def damaged_conversations(draw):
    played = list(answers())
    place = draw(st.integers(0, len(played) - 1))
    played[place] = draw(damaged_bytes(played[place]))
    return [answer or None for answer in played]  # an empty answer would never come


@given(damaged_conversations())
@settings(max_examples=40, deadline=None)
def test_damaged_answers_are_read_or_refused(played):
    with pytest.MonkeyPatch.context() as patch, limited(), contextlib.suppress(NetweaveError):
        patch.setattr(hbase, "PAUSES_S", ())
        patch.setattr(hbase, "TIMEOUT_MS", 100)
        play_back(played)
