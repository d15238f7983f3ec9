"""Whoever waits for a comparison reads in plain words what is being done, whatever stage it is in."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import netweave

PACKAGE = Path(netweave.__file__).parent
FOLLOW = Path(__file__).parents[2] / "frontend" / "src" / "web" / "follow.ts"


def announced() -> set[str]:
    """Return the names of all stages that a comparison announces."""
    names = set()
    for file in (PACKAGE / "comparison").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
                continue
            if node.func.attr in {"stage", "progress"} and isinstance(node.args[0], ast.Constant):
                names.add(node.args[0].value)
    return names


@pytest.mark.skipif(not FOLLOW.exists(), reason="needs the sources of the front end")
def test_every_stage_has_plain_words():
    names = announced()
    assert {"run", "align", "keep values"} <= names
    table = re.search(r"const STAGES.*?^};", FOLLOW.read_text(), re.DOTALL | re.MULTILINE)[0]
    worded = set(re.findall(r'^  "?([\w ]+?)"?: "', table, re.MULTILINE))
    assert names <= worded
