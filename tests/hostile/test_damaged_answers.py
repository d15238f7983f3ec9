"""Damaged answers of a server with HBase's interface: records or a NetweaveError, in little time and memory.

The answers of an undamaged conversation are recorded once. A server then plays them back, one for each
request, with one of them damaged, and hangs up behind the last.
"""

from __future__ import annotations

import contextlib
import io
import socket
import threading
from functools import cache
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netweave.errors import NetweaveError
from netweave.job import DataSource
from netweave.training.data import open_source
from netweave.training.data.sources import hbase
from tests.hostile.mutations import damaged_bytes
from tests.hostile.test_mutations import limited
from tests.training.data.make import pictures
from tests.training.data.thrift_gateway import gateway

cv2 = pytest.importorskip("cv2")

PROTOCOLS = ("binary", "compact")

IMAGES = pictures(3, height=5, width=6)


def read_all(port, protocol):
    path = f"hbase://127.0.0.1:{port}/photos?image=image:data&label=image:label&protocol={protocol}"
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
def answers(protocol):
    """Return the answers of a gateway while a table of three rows is read, by passing requests on to it."""
    rows = {
        f"photo{index}".encode(): {
            b"image:data": cv2.imencode(".png", pixels)[1].tobytes(),
            b"image:label": str(index).encode(),
        }
        for index, pixels in enumerate(IMAGES)
    }
    recorded = []
    with (
        gateway({b"photos": rows}, protocol) as store,
        socket.create_connection(("127.0.0.1", store.port)) as behind,
    ):

        def pass_on(number, request):
            behind.sendall(request)
            recorded.append(behind.recv(1 << 16))
            return recorded[-1]

        with serving(pass_on) as port:
            assert len(read_all(port, protocol)) == len(IMAGES)
    return tuple(recorded)


def play_back(played, protocol):
    with serving(lambda number, _: played[number] if number < len(played) else None) as port:
        return read_all(port, protocol)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_undamaged_conversation_is_read(protocol):
    assert [float(label) for _, label in play_back(answers(protocol), protocol)] == [0, 1, 2]


@st.composite
def damaged_conversations(draw):
    protocol = draw(st.sampled_from(PROTOCOLS))
    played = list(answers(protocol))
    place = draw(st.integers(0, len(played) - 1))
    played[place] = draw(damaged_bytes(played[place]))
    return protocol, [answer or None for answer in played]  # an empty answer would never come


@given(damaged_conversations())
@settings(max_examples=40, deadline=None)
def test_damaged_answers_are_read_or_refused(drawn):
    protocol, played = drawn
    with pytest.MonkeyPatch.context() as patch, limited(), contextlib.suppress(NetweaveError):
        patch.setattr(hbase, "PAUSES_S", ())
        patch.setattr(hbase, "TIMEOUT_MS", 100)
        play_back(played, protocol)


@pytest.mark.parametrize(("protocol", "message", "reason"), [
    # a list of 2^31 - 1 elements of no known type, of which thriftpy2 reads no byte
    ("binary", b"\x80\x01\x00\x02" + bytes(8) + b"\x0f\0\0" + b"\x63\x7f\xff\xff\xff\0", "unknown type 99"),
    ("compact", b"\x82\x41\0\0" + b"\x19" + b"\xfd\xff\xff\xff\xff\x07\0", "unknown type 13"),
    ("compact", b"\x82\x41\0\0" + b"\x18" + b"\xff\xff\xff\xff\x07\0", "a string of 2,147,483,647 bytes"),
    ("compact", b"\x82\x41\0\0" + b"\x1c" * 100, "nested more than 64 deep"),
    ("compact", b"\x82\x41\0\0" + b"\x16" + b"\xff" * 11 + b"\0", "a number of more than 10 bytes"),
])  # fmt: skip
def test_messages_that_would_hold_thriftpy2_are_refused(protocol, message, reason):
    from netweave.training.data.sources.hbase import PROTOCOLS as CHECKED

    with pytest.raises(ValueError, match=reason):
        CHECKED[protocol].message(io.BytesIO(message).read).content()


def test_every_value_of_the_compact_protocol_is_checked_to_its_end():
    """thriftpy2 writes a message of all types; the check takes as many bytes of it as were written."""
    from thriftpy2.protocol.compact import TCompactProtocol
    from thriftpy2.thrift import TPayload, TType
    from thriftpy2.transport import TMemoryBuffer

    from netweave.training.data.sources.hbase import CompactMessage

    class Inner(TPayload):
        thrift_spec: ClassVar = {1: (TType.BOOL, "yes", False), 40: (TType.I64, "far", False)}

    class Outer(TPayload):
        thrift_spec: ClassVar = {
            1: (TType.LIST, "listed", (TType.STRUCT, Inner), False),
            2: (TType.MAP, "mapped", (TType.STRING, TType.DOUBLE), False),
            3: (TType.SET, "bools", TType.BOOL, False),
            4: (TType.BYTE, "byte", False),
            5: (TType.MAP, "empty", (TType.STRING, TType.I32), False),
            6: (TType.BOOL, "no", False),
        }

    inner, outer = Inner(), Outer()
    inner.yes, inner.far = True, -(2**62)
    outer.listed, outer.mapped, outer.bools = [inner] * 20, {"a": 0.5, "b": 2.0}, [True, False]
    outer.byte, outer.empty, outer.no = 7, {}, False
    buffer = TMemoryBuffer()
    protocol = TCompactProtocol(buffer)
    protocol.write_message_begin("answer", 2, 300)
    protocol.write_struct(outer)
    protocol.write_message_end()
    written = buffer.getvalue()
    stream = io.BytesIO(written + b"next")
    assert CompactMessage(stream.read).content() == written
    assert stream.read() == b"next"
