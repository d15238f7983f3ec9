"""Characters that act instead of showing are written out, on terminals and pages alike."""

from __future__ import annotations

import json

import pytest

from netweave.graph.printable import CONTROLS, printable, printable_json, printable_text
from netweave.viewer.page import json_in_html

ACTING = [
    *(chr(c) for c in range(9)),
    "\x0b",
    "\x1b",
    "\x7f",
    "\x9b",
    "\u061c",
    "\u200f",
    "\u202e",
    "\u2066",
    "\ufeff",
]


@pytest.mark.parametrize("character", ACTING)
def test_a_character_that_acts_is_written_out_everywhere(character):
    text = f"layer{character}1"
    for shown in (
        printable(text),
        printable_text(text),
        json.loads(printable_json(json.dumps(text, ensure_ascii=False))),
        json.loads(json_in_html({"name": text}))["name"],
    ):
        assert not CONTROLS.search(shown)
        assert shown.startswith("layer\\")
    assert not CONTROLS.search(json_in_html({"name": text}))


@pytest.mark.parametrize("text", ["é", "层", "😀", "a\tb\nc", 'a"b', "a\\u0001b", "\\", "\\\\b"])
def test_other_text_stays_as_it_is(text):
    assert printable_text(text) == text
    assert json.loads(printable_json(json.dumps(text))) == text
    assert json.loads(json_in_html([text])) == [text]
