"""Docstrings in Google form as Markdown."""

from __future__ import annotations

import inspect
import re
from typing import Any

SECTIONS = {"Args": "Arguments", "Attributes": "Attributes", "Returns": "Returns", "Raises": "Errors"}
"""Names of sections in docstrings, and on pages."""


def markdown(thing: Any) -> str:
    """Return the docstring of a function, class or module as Markdown."""
    lines = (inspect.getdoc(thing) or "").splitlines()
    parts: list[str] = []
    while lines:
        section = SECTIONS.get(lines[0].rstrip(":")) if lines[0].endswith(":") else None
        if section:
            body = _indented(lines)
            parts += [f"**{section}**", "", *_entries(body), ""]
        elif lines[0].startswith(">>>"):
            parts += ["```python", *_until_blank(lines), "```", ""]
        else:
            parts.append(_code(lines.pop(0)))
    return "\n".join(parts).strip()


def signature(function: Any) -> str:
    """Return a function's name and arguments, one a line if there are many."""
    found = inspect.signature(function)
    arguments = _arguments(found)
    returns = f" -> {found.return_annotation}" if isinstance(found.return_annotation, str) else ""
    text = f"{function.__name__}({', '.join(arguments)}){returns}"
    if len(text) <= 88:
        return text
    lines = "".join(f"    {argument},\n" for argument in arguments)
    return f"{function.__name__}(\n{lines}){returns}"


def _arguments(found: inspect.Signature) -> list[str]:
    parts = []
    for parameter in found.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        known = isinstance(parameter.annotation, str)
        text = f"{parameter.name}: {parameter.annotation}" if known else parameter.name
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        parts.append(text + default)
    return [part for part in parts if part != "self"]


def _indented(lines: list[str]) -> list[str]:
    """Take a section's heading off the lines, and return its body without its indentation."""
    lines.pop(0)
    body = []
    while lines and (not lines[0].strip() or lines[0].startswith("    ")):
        body.append(lines.pop(0)[4:])
    return body


def _until_blank(lines: list[str]) -> list[str]:
    taken = []
    while lines and lines[0].strip():
        taken.append(lines.pop(0))
    return taken


def _entries(body: list[str]) -> list[str]:
    entries: list[str] = []
    for line in body:
        name = re.match(r"(\w+): (.*)", line)
        if name:
            entries.append(f"- `{name[1]}`: {_code(name[2])}")
        elif line.strip():
            entries.append(f"  {_code(line.strip())}")
    return entries


def _code(text: str) -> str:
    return text.replace("``", "`")
