"""FlatBuffers read by a schema: defaults, unions, and offsets that lead nowhere."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from netweave.errors import ReadError
from netweave.files.flatbuffers import FlatSchema
from tests.formats.tensorflow.lite.files import Writer

SCHEMA = FlatSchema(
    """
table Root
  number int32 =7; ratio float32 =0.5; flag bool; -; kind Kind; kind_type uint8; some Some; list int32[];
  name string; children Child[]; child Child; wide uint64
table Child
  value int32; children Child[]
table Other
  text string
enum Kind
  NONE=0 ONE=1
union Some
  Other=2
"""
)


def decoded(**values):
    return SCHEMA.decode("Root", Writer(SCHEMA).file("Root", values), place="x")


def test_fields_that_are_left_out_have_their_default():
    record = decoded()
    assert (record["number"], record["ratio"], record["flag"], record["kind"]) == (7, 0.5, False, "NONE")
    assert (record["some"], record["name"], record["children"], record["child"]) == (None, "", [], None)
    assert record["list"].tolist() == []


def test_fields_are_what_was_written():
    record = decoded(
        number=-3, kind="ONE", kind_type=2, some=("Other", {"text": "é"}), list=[1, -2], name="n",
        children=[{"value": 1}, {"value": 2}], wide=2**63,
    )  # fmt: skip
    assert record["number"] == -3
    assert record["some"] == {"text": "é"}
    assert np.array_equal(record["list"], [1, -2])
    assert [child["value"] for child in record["children"]] == [1, 2]
    assert record["wide"] == 2**63


def test_numbers_that_the_schema_does_not_know_stay_numbers():
    record = decoded(kind=9, kind_type=77, some=("Other", {}))
    assert (record["kind"], record["some"]) == ("9", None)


def test_arrays_are_views_of_the_file():
    content = Writer(SCHEMA).file("Root", {"list": [1, 2, 3]})
    array = SCHEMA.decode("Root", content, place="x")["list"]
    assert np.shares_memory(array, np.frombuffer(content, np.uint8))


def test_a_table_that_holds_itself_has_an_end():
    content = bytearray(Writer(SCHEMA).file("Root", {"children": [{"children": [{}]}]}))
    # the grandchild's offset leads back to the child
    record = SCHEMA.decode("Root", bytes(content), place="x")
    assert len(record["children"][0]["children"]) == 1
    for at in range(8, len(content) - 4):
        changed = bytearray(content)
        struct.pack_into("<i", changed, at, -at // 2)
        try:
            SCHEMA.decode("Root", bytes(changed), place="x")
        except ReadError as error:
            assert "refers to" in str(error)  # noqa: PT017 - either is right


def test_lists_of_tables_are_bounded(monkeypatch):
    monkeypatch.setattr("netweave.files.flatbuffers.MAX_ITEMS", 3)
    with pytest.raises(ReadError, match="its lists name more than 3 tables"):
        decoded(children=[{}] * 4)


def test_every_offset_is_held_against_the_file():
    content = Writer(SCHEMA).file("Root", {"list": [1, 2], "name": "name", "children": [{"value": 1}]})
    (root,) = struct.unpack_from("<I", content)
    for end in range(root + 4):
        with pytest.raises(ReadError, match=r"^x: refers to .* bytes at byte"):
            SCHEMA.decode("Root", content[:end], place="x")
