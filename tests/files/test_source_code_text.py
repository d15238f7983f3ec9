"""Lines of written source: as many as it takes to keep them short."""

from __future__ import annotations

import ast

import pytest

from netweave.files.source_code.text import WIDTH, wrapped

LONG = ", ".join(f"argument{number}" for number in range(8))


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("x = f(1)", 1),
        (f"result = f(g({LONG}), 3)", 3),
        (f"    result = f({LONG})", 3),
        (f"result = f({LONG})[0]", 3),
        (f"        x = cat([{LONG}, g({LONG}), {LONG}], 1)", 6),
        (f"result = f({LONG}) + g(1)", 1),  # more than one call: left as it is
        (f"x = {LONG}", 1),
    ],
)
def test_a_long_call_gets_lines_of_its_own(line, count):
    lines = wrapped(line)
    assert len(lines) == count
    same = [ast.dump(ast.parse("\n".join(text).strip())) for text in ([line], lines)]
    assert same[0] == same[1]
    assert count == 1 or max(map(len, lines)) <= WIDTH
