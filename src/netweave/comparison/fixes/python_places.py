"""Positions of the nodes of a Python syntax tree in their text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ast


class Places:
    """Characters of a text by the lines and UTF-8 columns that Python counts in.

    Args:
        text: The text that was parsed.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def of(self, node: ast.expr | ast.keyword) -> tuple[int, int]:
        """Return where a node begins and ends."""
        end = self._place(node.end_lineno or node.lineno, node.end_col_offset or 0)
        return self._place(node.lineno, node.col_offset), end

    def text(self, node: ast.expr | ast.keyword) -> str:
        """Return a node as it is written."""
        start, end = self.of(node)
        return self._text[start:end]

    def between(self, start: int, end: int) -> str:
        """Return a stretch of the text."""
        return self._text[start:end]

    def line_start(self, place: int) -> int:
        """Return where the line begins in which a character stands."""
        return self._text.rfind("\n", 0, place) + 1

    def _place(self, line: int, column: int) -> int:
        before = self._lines[line - 1].encode()[:column].decode()
        return self._starts[line - 1] + len(before)
