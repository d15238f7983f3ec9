"""Pickles as data: the same objects as unpickling makes, where these are plain, and never a call."""

from __future__ import annotations

import collections
import contextlib
import io
import os
import pickle  # noqa: TID251 - the oracle
import pickletools
from typing import TYPE_CHECKING

import hypothesis.strategies as st
import pytest
from hypothesis import given

from netweave.errors import NetweaveError, ReadError, UnsupportedError
from netweave.files.pickled import Call, Name, read_pickled

if TYPE_CHECKING:
    from pathlib import Path

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(max_size=20),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text(), inner)
        | st.tuples(inner)
        | st.tuples(inner, inner)
        | st.tuples(inner, inner, inner, inner)
    ),
    max_leaves=20,
)


def parse(content: bytes) -> object:
    return read_pickled(io.BytesIO(content), place="file")


@given(plain, st.integers(3, 5))
def test_plain_values_are_as_pickle_reads_them(value: object, protocol: int) -> None:
    assert parse(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("protocol", range(6))
def test_calls_are_described(protocol: int) -> None:
    found = parse(pickle.dumps(collections.OrderedDict(a=1, b=[2, 3]), protocol))
    assert isinstance(found, Call)
    assert (found.function, found.items) == (Name("collections", "OrderedDict"), [("a", 1), ("b", [2, 3])])


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(6))
def test_what_a_pickle_would_call_is_not_called(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "made"
    content = pickle.dumps(Evil(path), protocol)
    found = parse(content)
    assert isinstance(found, Call)
    assert found.arguments == (str(path),)
    assert not path.exists()
    pickle.loads(content)
    assert path.exists()  # so it would have been


def test_pickles_stand_behind_one_another() -> None:
    file = io.BytesIO(pickle.dumps(1) + pickle.dumps("two") + b"rest")
    assert [read_pickled(file, place="file") for _ in range(2)] == [1, "two"]
    assert file.read() == b"rest"


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with contextlib.suppress(NetweaveError):  # any other error would be ours
        parse(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "its pickle ends too early|is no whole pickle"),
        (pickle.dumps([1, 2, 3])[:-1], "is no whole pickle|ends too early"),
        (b"(.", "a mark where a value should be"),
        (b"]}s.", "is no whole pickle"),
        (b"}]K\x01s.", "unhashable"),
        (b"h\x05.", "is no whole pickle"),
    ],
)
def test_damage_is_named(content: bytes, message: str) -> None:
    with pytest.raises(ReadError, match=message):
        parse(content)


def test_opcodes_that_no_array_needs_are_refused() -> None:
    content = b"\x80\x02cos\nsystem\nq\x00(U\x02lso."
    assert any(op.name == "OBJ" for op, _, _ in pickletools.genops(content))
    with pytest.raises(UnsupportedError, match="opcode OBJ"):
        parse(content)
