"""Names of open sizes: any text in a file, an identifier or a short sum or product in a Graph.

Shape inference reads such names as formulas, so that ``9**9**9`` would be computed and ``batch size?``
cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import onnx_ir as ir

from netweave.files.onnx.editing import all_graphs, all_values
from netweave.graph.naming import free_name

_TERM = r"(?:[A-Za-z_]\w{0,60}|\d{1,9})"
_FORMULA = re.compile(rf"{_TERM}(?:\s*[-+*]\s*{_TERM}){{0,4}}")

_NO_NAMES = frozenset({"", "?", "None", "-1", "unknown"})
"""What exporters write for a size that they know nothing about."""


def plain_symbols(graph: ir.Graph) -> None:
    """Give every open size in a graph and its bodies a name that inference can read; equal stays equal."""
    names: dict[str, str | None] = {}
    for inner in all_graphs(graph):
        for value in all_values(inner):
            if value.shape is not None and not all(isinstance(dim, int) for dim in value.shape):
                value.shape = ir.Shape([_plain(dim, names) for dim in value.shape])


def _plain(dim: int | ir.SymbolicDim, names: dict[str, str | None]) -> int | str | None:
    if isinstance(dim, int) or dim.value is None:
        return dim if isinstance(dim, int) else None
    if dim.value not in names:
        names[dim.value] = _free_name(dim.value, names)
    return names[dim.value]


def _free_name(text: str, names: Mapping[str, str | None]) -> str | None:
    if text.strip() in _NO_NAMES:
        return None
    if _FORMULA.fullmatch(text) and not text.isdigit():
        return text
    stem = re.sub(r"\W+", "_", text)[:60].strip("_") or "size"
    return free_name(f"d{stem}" if stem[0].isdigit() else stem, {*names, *names.values()}, first=1)


def renamed(dim: int | ir.SymbolicDim, old: str, new: str) -> int | ir.SymbolicDim:
    """Return a size with one symbol called otherwise, also inside a formula."""
    if isinstance(dim, int) or dim.value is None:
        return dim
    return ir.SymbolicDim(re.sub(rf"\b{re.escape(old)}\b", new, dim.value))
