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
from netweave.files.pickles import Name, OpaqueKey, Persistent, PickledCall, describe, read_pickled

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
    assert isinstance(found, PickledCall)
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
    assert isinstance(found, PickledCall)
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
        (b"", "its pickle ends unexpectedly|is not a complete pickle"),
        (pickle.dumps([1, 2, 3])[:-1], "is not a complete pickle|ends unexpectedly"),
        (b"(.", "a mark where a value should be"),
        (b"]}s.", "is not a complete pickle"),
        (b"}]K\x01s.", "unhashable"),
        (b"h\x05.", "is not a complete pickle"),
    ],
)
def test_damage_is_named(content: bytes, message: str) -> None:
    with pytest.raises(ReadError, match=message):
        parse(content)


@given(plain)
def test_what_may_be_a_key_is_one(key: object) -> None:
    if isinstance(key, list | dict):
        with pytest.raises(ReadError, match="unhashable"):
            parse(b"\x80\x04}" + body(key) + b"Ns.")
        return
    ((found, _),) = parse(b"\x80\x04}" + body(key) + b"Ns.").items()  # type: ignore[attr-defined]
    assert (found.value if isinstance(found, OpaqueKey) else found) == key


def body(value: object) -> bytes:
    """Return the opcodes of a value without what frames them."""
    return pickle.dumps(value, 3)[2:-1]


def test_tuples_and_large_numbers_are_no_keys_that_compare() -> None:
    first, second = (
        parse(pickle.dumps({(1, 2): 0, 2**64: 0, 2**63 - 1: 1}, 4)),
        parse(pickle.dumps((1, 2), 4)),
    )
    assert isinstance(first, dict)
    assert second not in first
    assert [type(key) for key in first] == [OpaqueKey, OpaqueKey, int]


def test_objects_may_refer_to_one_another() -> None:
    inner: list[object] = []
    holder = collections.UserList(inner)
    holder.data.append(holder)
    assert isinstance(parse(pickle.dumps(holder, 4)), PickledCall)


@pytest.mark.parametrize(("depth", "refused"), [(100, False), (101, True)])
def test_containers_nest_up_to_a_limit(depth: int, refused: bool) -> None:
    content = b"N" + b"\x85" * depth + b"."
    with pytest.raises(UnsupportedError, match="more than 100 deep") if refused else contextlib.nullcontext():
        assert str(parse(content)) == "(" * depth + "None" + ",)" * depth


@given(plain)
def test_descriptions_are_short(value: object) -> None:
    for held in (
        value,
        PickledCall(Name("a" * 500, "b"), value),
        Persistent(value),
        OpaqueKey(value),
        PickledCall(value, ()),
    ):
        assert len(describe(held)) < 200
        assert len(repr(held)) < 200 or held is value


def test_opcodes_that_no_array_needs_are_refused() -> None:
    content = b"\x80\x02cos\nsystem\nq\x00(U\x02lso."
    assert any(op.name == "OBJ" for op, _, _ in pickletools.genops(content))
    with pytest.raises(UnsupportedError, match="opcode OBJ"):
        parse(content)
