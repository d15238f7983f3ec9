"""Our text parser against google.protobuf's, over generated messages and written cases."""

from __future__ import annotations

import re

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from hypothesis import given
from hypothesis import strategies as st

from netweave.errors import ReadError
from netweave.files.protobuf import Schema
from netweave.files.prototext import MAX_DEPTH, parse_text

SCHEMA = Schema("""
message Node
  1 name string; 2 size int32 =7; 3 big int64; 4 few uint32[]; 5 rate float; 6 on bool; 7 raw bytes;
  8 child Node; 9 children Node[]; 10 mode Mode =SLOW; 11 modes Mode[]; 12 exact double[]; 13 more uint64
enum Mode
  SLOW=0 FAST=1 NEGATIVE=-3
""")


def google_node():
    """The same message declared to google.protobuf, with its enumeration as such."""
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto2")
    mode = file.enum_type.add(name="Mode")
    for name, number in SCHEMA.enums["Mode"].items():
        mode.value.add(name=name, number=number)
    node = file.message_type.add(name="Node")
    for field in SCHEMA.messages["Node"].fields.values():
        made = node.field.add(name=field.name, number=field.number, label=3 if field.repeated else 1)
        made.type = made.Type.Value(f"TYPE_{field.type.upper()}")
        if field.of:
            made.type_name = f".t.{field.of}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Node"))


Node = google_node()


def nodes(depth: int = 2):
    fields = {
        "name": st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        "size": st.integers(-(2**31), 2**31 - 1),
        "big": st.integers(-(2**63), 2**63 - 1),
        "more": st.integers(0, 2**64 - 1),
        "few": st.lists(st.integers(0, 2**32 - 1), max_size=3),
        "rate": st.floats(width=32, allow_nan=False),
        "on": st.booleans(),
        "raw": st.binary(max_size=8),
        "mode": st.sampled_from(list(SCHEMA.enums["Mode"].values())),
        "modes": st.lists(st.sampled_from(list(SCHEMA.enums["Mode"].values())), max_size=3),
        "exact": st.lists(st.floats(allow_nan=False), max_size=3),
    }
    if depth:
        fields |= {"child": nodes(depth - 1), "children": st.lists(nodes(depth - 1), max_size=2)}
    return st.fixed_dictionaries({}, optional=fields).map(lambda chosen: Node(**chosen))


def google_values(message):
    """A message as plain values."""
    found = {}
    for descriptor, value in message.ListFields():
        items = list(value) if SCHEMA.messages["Node"].fields[descriptor.name].repeated else [value]
        found[descriptor.name] = [google_values(i) if descriptor.name in CHILDREN else i for i in items]
    return found


def our_values(message):
    """The same of one of ours: enumerations as numbers, floats as float32."""
    found = {}
    for name in message:
        field = message.type.fields[name]
        items = message[name] if field.repeated else [message[name]]
        convert = {"message": our_values, "enum": SCHEMA.enums["Mode"].get, "float": np.float32}.get(
            field.type
        )
        found[name] = [convert(item) for item in items] if convert else items
    return found


CHILDREN = {"child", "children"}


@given(nodes(), st.booleans())
def test_reads_what_google_writes(message, one_line):
    text = text_format.MessageToString(message, as_one_line=one_line)
    found = parse_text(text.encode(), SCHEMA, "Node", place="t")
    assert our_values(found) == google_values(message)


@given(nodes())
def test_bytes_give_the_same_as_text(message):
    text = text_format.MessageToString(message).encode()
    read = SCHEMA.decode("Node", message.SerializeToString(), place="t")
    assert our_values(read) == our_values(parse_text(text, SCHEMA, "Node", place="t"))


ACCEPTED = [
    "",
    "# only a comment",
    'name: "a" \'b\' # strings one after the other are one\n"c"',
    r'name: "\\\"\n\t\x41\101\u00e9" raw: "\000\xff"',
    "size: 0x1F big: -017 few: [1, 2] few: 3 few: []",
    "rate: 1.",
    "rate: .5e-3f",
    "rate: -inf exact: nan exact: infinity exact: 3",
    "on: true",
    "on: 1",
    "on: f",
    "mode: FAST modes: [SLOW, 1, -3]",
    "child { size: 1 }",
    "child: < size: 1 >",
    "children [{size: 1}, <size: 2>] children: {}",
    "size: 1; name: 'x', on: false",
    "child{child{child{}}}",
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepts_what_google_accepts(text):
    expected = text_format.Parse(text, Node())
    found = our_values(parse_text(text.encode(), SCHEMA, "Node", place="t"))
    np.testing.assert_equal(found, google_values(expected))


REFUSED = [
    ("size: 1\nsise: 2", "t:2: unknown field 'sise' in Node; did you mean 'size'?"),
    ("child {\n  nam: 1\n}", "t:2: unknown field 'nam' in Node; did you mean 'name'?"),
    (
        "sise: 2\nsize: 1\nchild { zzz { a: 'x' } qqq: -3\nzzz: [1, 2] }",
        "t:1: unknown field 'sise' in Node; did you mean 'size'?; line 3: unknown field 'zzz' in Node "
        "(also on line 4); line 3: unknown field 'qqq' in Node",
    ),
    ("sise: 2\nsize: 1.5", "t:1: unknown field 'sise' in Node; did you mean 'size'?"),
    ("size: 1\nsize: 2", "t:2: field 'size' appears again, first on line 1; it may stand once"),
    ("size: 2147483648", "t:1: found 2147483648 as the value of 'size', expected a whole number from"),
    ("few: -1", "t:1: found -1 as the value of 'few', expected a whole number from 0 to 4294967295"),
    ("size: 1.5", "t:1: found 1.5 as the value of 'size', expected a whole number"),
    ("mode: FASTER", "t:1: found FASTER as the value of 'mode', expected one of Mode; did you mean 'FAST'?"),
    ("mode: 9", "t:1: found 9 as the value of 'mode', expected one of Mode"),
    ("on: 2", "t:1: found 2 as the value of 'on', expected true or false"),
    ("rate: fast", "t:1: found fast as the value of 'rate', expected a number"),
    ("rate: {}", "t:1: found '{' as the value of 'rate', expected a number"),
    ("name: x", "t:1: found 'x' as the value of 'name', expected a string in \"quotes\""),
    ('name: "x', "t:1: cannot read '\"x'; is this a text file, and are its quotes closed?"),
    ("child {\n\n", "t:3: the file ends inside Node, which begins on line 1"),
    ("size 1", "t:1: found '1' after 'size', expected ':'"),
    ("child: 3", "t:1: found '3' after 'child', expected '{'"),
    ("few: [1 2]", "t:1: found '2' in the list of 'few', expected ',' or ']'"),
    ("}", "t:1: found '}', expected the name of a field of Node"),
    ("child { > }", "t:1: found '>', expected the name of a field of Node"),
    ("size: 1 $", "t:1: cannot read '$'; is this a text file"),
    ("child{" * (MAX_DEPTH + 1), f"t:1: messages are nested more than {MAX_DEPTH} deep"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_refuses_with_place_and_way_out(text, message):
    with pytest.raises(ReadError, match="^" + re.escape(message)):
        parse_text(text.encode(), SCHEMA, "Node", place="t")
    with pytest.raises(text_format.ParseError):
        text_format.Parse(text, Node())


def test_every_value_has_its_line():
    text = "\n\nname: 'a'\nfew: 1\nfew: [2,\n3]\nchild {\n  size: 1\n}\n"
    message = parse_text(text.encode(), SCHEMA, "Node", place="t")
    assert [message.line_of("few", index) for index in range(3)] == [4, 5, 6]
    assert (message.line_of("name"), message["child"].line, message["child"].line_of("size")) == (3, 7, 8)
    assert message["child"].line_of("rate") == 7


TOKENS = [*"{}<>[]:;,\"' \n", "#c\n", "name", "size", "few", "child", "on", "true", "1", "-1", "2.5", "'x'"]


@given(st.lists(st.sampled_from(TOKENS), max_size=20).map(" ".join))
def test_any_text_is_read_or_refused_as_google_does(text):
    try:
        expected = text_format.Parse(text, Node())
    except text_format.ParseError:
        expected = None
    try:
        found = parse_text(text.encode(), SCHEMA, "Node", place="t")
    except ReadError:
        found = None
    if expected is None or found is None:
        assert (expected is None) == (found is None), text
    else:
        assert our_values(found) == google_values(expected)


def test_hostile_text_is_refused_at_once():
    for text in (b'name: "' + b"a" * (8 << 20), b"child {" * 1_000_000, b"\\" * (4 << 20), b"# " * (9 << 20)):
        with pytest.raises(ReadError):
            parse_text(text, SCHEMA, "Node", place="t")
