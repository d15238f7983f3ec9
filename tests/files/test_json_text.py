"""JSON with line numbers: places, limits, and one clear error for whatever is no JSON."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netweave.errors import ReadError
from netweave.files.json_text import JsonObject, checked, parse_json

TEXTS = st.text(alphabet='{}[]",:\\\n aé', max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=20,
)


@given(VALUES, st.sampled_from([None, 0, 2]))
def test_values_are_those_of_json(value, indent):
    text = json.dumps(value, indent=indent)
    assert parse_json(text.encode(), file="x.json") == json.loads(text)


@given(VALUES)
def test_objects_know_the_line_of_their_bracket(value):
    """Objects that carry their own place: the line is written into the text before it is parsed."""
    lines = json.dumps(value, indent=1).split("\n")
    marked = [line + f'"@line": {n},' * line.endswith("{") for n, line in enumerate(lines, 1)]
    text = "\n".join(marked).replace(",\n", ",\n")
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return  # a string that ends in a bracket was marked
    for item in objects(parse_json(text.encode(), file="x.json")):
        if "@line" in item:
            assert item.line == item["@line"]
            assert item.place == f"x.json:{item.line}"


def objects(value):
    if isinstance(value, JsonObject):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(item)


def test_lines_count_from_one_and_strings_hide_brackets():
    text = '[\n {"a": "}{\\"[\\n"},\n\n {"b": {\n"c": 1}}]'
    first, second = parse_json(text.encode(), file="f")
    assert (first.line, second.line, second["b"].line) == (2, 4, 4)


@pytest.mark.timing
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "f:1: is not valid JSON: Expecting value"),
        (b'{"a": 1,\n "b": ', "f:2: is not valid JSON"),
        (b'{"a": NaN}', "f: NaN is not a JSON number"),
        (b'{"a": -Infinity}', "f: -Infinity is not a JSON number"),
        (b"\x80\x04K\x01.", "f: is not a JSON text: byte 0 is not UTF-8"),
        (b"[" * 101 + b"]" * 101, "f:1: is nested more than 100 deep"),
        (b"[" * 1_000_000, "f:1: is nested more than 100 deep"),
        (b"[" + b"1," * 2_000_000 + b"1]", "f:1: holds more than 2,000,000 values"),
        (b"[1" + b"0" * 5000 + b"]", "f: is not readable JSON: Exceeds the limit"),
        (b"x" * (33 << 20), "f: has 34,603,008 bytes of JSON, expected at most 33,554,432"),
        (b'"' + b'\\"' * 5_000_000, "f:1: is not valid JSON: Unterminated string"),
        (b'{"a": 1} {', "f:1: is not valid JSON: Extra data"),
    ],
    ids=range(12),
)
def test_what_is_no_json_is_refused_at_once(content, message):
    start = time.process_time()
    with pytest.raises(ReadError) as caught:
        parse_json(content, file="f")
    assert str(caught.value).startswith(message)
    assert time.process_time() - start < 2


def test_a_byte_order_mark_is_no_matter():
    assert parse_json(b"\xef\xbb\xbf{}", file="f") == {}


@pytest.mark.parametrize(
    ("kind", "message"),
    [(list, "'a' is true, expected a list"), (int, "'a' is true, expected a whole number")],
)
def test_fields_are_checked_for_their_type(kind, message):
    item = parse_json(b'\n{"a": true}', file="f")
    with pytest.raises(ReadError, match=f"f:2: {message}"):
        item.field("a", kind)


def test_a_missing_field_is_named():
    item = parse_json(b'{"a": "x"}', file="f")
    assert item.field("b", list, []) == []
    with pytest.raises(ReadError, match="f:1: expected a list 'b', found none"):
        item.field("b", list)


def test_long_values_are_cut_in_messages():
    with pytest.raises(ReadError, match=r'it is "x{36}\.\.\., expected a list'):
        checked("x" * 1000, list, what="it", place="f")
