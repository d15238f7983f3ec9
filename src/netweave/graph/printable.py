"""Texts from files as people may see them: characters that act instead of showing are written out.

Names of layers are whatever a file says. A control character moves a terminal's cursor or colours its text; a
character that turns the direction of writing makes what follows it read as something else, on a terminal and
on a page alike (https://trojansource.codes). The terminal, the pages and the messages use this one list.
"""

from __future__ import annotations

import re

ACTING = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
"""Characters that act, as a class of a regular expression: but for tab and newline."""

CONTROLS = re.compile(f"[{ACTING}]")

_IN_JSON = re.compile(r"(?<!\\)((?:\\\\)*)\\(u00(?:0[0-8bBeEfF]|1[0-9a-fA-F])|[bf])")
"""Control characters as JSON escapes them, with the escaped backslashes before."""


def printable(text: str) -> str:
    r"""Return text with the characters that act written out.

    >>> print(printable("a\u202eb\x1b[31m"))
    a\u202eb\x1b[31m
    """
    return CONTROLS.sub(lambda match: repr(match[0])[1:-1], text)


def printable_text(text: str) -> str:
    """Return text of several lines, written out like ``printable`` but for newlines and tabs."""
    return CONTROLS.sub(lambda match: match[0] if match[0] in "\n\t" else repr(match[0])[1:-1], text)


def printable_json(text: str) -> str:
    r"""Return JSON, with ``ensure_ascii=False``, whose strings whoever reads it shows written out.

    >>> print(printable_json('{"a\u202e": "b\\u0001"}'))
    {"a\\u202e": "b\\u0001"}
    """
    text = _IN_JSON.sub(lambda match: f"{match[1]}\\\\{match[2]}", text)
    return CONTROLS.sub(lambda match: f"\\{repr(match[0])[1:-1]}", text)
