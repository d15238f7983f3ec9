"""Functions of PyTorch that are written as source code."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from textwrap import fill
from typing import Any

from netweave.files.source_code.text import WIDTH


@dataclass(frozen=True, slots=True)
class Function:
    """A function for an operator.

    Attributes:
        op_type: The operator, of the domain ``netweave``.
        shapes: Sizes of its outputs from its inputs and settings, as a trace needs them; a size that depends
            on the data is 1 there.
    """

    op_type: str
    shapes: Callable[..., Sequence[Sequence[Any]]]


def _detected(boxes: Any, scores: Any, **settings: Any) -> Sequence[Sequence[Any]]:
    return [(1, 1, 1, 7)]


def _multibox(probabilities: Any, locations: Any, anchors: Any, **settings: Any) -> Sequence[Sequence[Any]]:
    return [(probabilities.shape[0], anchors.shape[1], 6)]


def _same(table: Any, **settings: Any) -> Sequence[Sequence[Any]]:
    return [tuple(table.shape)]


def _proposed(scores: Any, deltas: Any, info: Any, **settings: Any) -> Sequence[Sequence[Any]]:
    cells = scores.shape[2] * scores.shape[3] * (scores.shape[1] // 2)
    first = min(count, cells) if (count := settings.get("rpn_pre_nms_top_n", 6000)) > 0 else cells
    rows = scores.shape[0] * min(settings.get("rpn_post_nms_top_n", 300), first)
    return [(rows, 5), (rows, 1)]


def _chosen(scores: Any, deltas: Any, info: Any, **settings: Any) -> Sequence[Sequence[Any]]:
    return [(1, 5), (1, 1)]


def _by_position(x: Any, regions: Any, **settings: Any) -> Sequence[Sequence[Any]]:
    group = settings["group_size"]
    return [(regions.shape[0], settings["output_dim"], group, group)]


def _pooled(x: Any, regions: Any, **settings: Any) -> Sequence[Sequence[Any]]:
    return [(regions.shape[0], x.shape[1], *settings["pooled_shape"])]


FUNCTIONS: Mapping[str, Function] = {
    "detection_output": Function("DetectionOutput", _detected),
    "multibox_detection": Function("MultiBoxDetection", _multibox),
    "box_nms": Function("BoxNMS", _same),
    "proposal": Function("Proposal", _proposed),
    "region_proposal": Function("RegionProposal", _chosen),
    "roi_pooling": Function("ROIPooling", _pooled),
    "psroi_pooling": Function("PSROIPooling", _by_position),
}
"""The functions that compute an operator, by their names."""


_MODULES = (
    "runtime/backends/torch/attention.py",
    "graph/ops/box_geometry.py",
    "runtime/backends/torch/detectors.py",
    "runtime/backends/torch/regions.py",
)


@cache
def sources() -> Mapping[str, str]:
    """Return the source of each function by its name, in the order in which they stand in a file.

    They lose their annotations, which nothing else in a written file has, and all but the first line of their
    docstrings. Formats may not import torch, so the modules are parsed and not imported.
    """
    package = resources.files("netweave")
    texts: dict[str, str] = {}
    for module in _MODULES:
        text = package.joinpath(module).read_text(encoding="utf-8")
        for function in ast.parse(text).body:
            if isinstance(function, ast.FunctionDef):
                assert function.name not in texts, f"{function.name} is defined twice"
                texts[function.name] = "\n".join(_lines(function, text.splitlines())) + "\n"
    return texts


def _lines(function: ast.FunctionDef, lines: list[str]) -> Iterator[str]:
    """Give the lines of a function as it is written; its body is kept to the letter."""
    arguments = function.args
    for argument in (*arguments.args, *arguments.kwonlyargs):
        argument.annotation = None
    shown = ast.unparse(arguments)
    head = f"def {function.name}({shown}):"
    if len(head) > WIDTH:
        inner = fill(f"{shown},", WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 4)
        head = f"def {function.name}(\n{inner}\n):"
    yield head
    summary = (ast.get_docstring(function) or "").partition("\n")[0]
    yield f'    """{summary}"""'
    yield from lines[function.body[1].lineno - 1 : function.end_lineno]


def used_sources(text: str) -> list[str]:
    """Return the sources of the functions that a text calls, and of those that they call."""
    return [sources()[name] for name in sources() if name in _used(text)]


def _used(text: str) -> set[str]:
    names: set[str] = set()
    texts = [text]
    while texts:
        current = texts.pop()
        called = {name for name in sources() if name not in names and _calls(current, name)}
        names |= called
        texts += [sources()[name] for name in called]
    return names


def _calls(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w.]){name}\(", text) is not None


def recognized(source_of: Callable[[str], str | None]) -> list[str]:
    """Return the functions for operators whose source in a file is exactly ours, with all that they call.

    Args:
        source_of: Gives the source of a function of the file by its name, None if the file defines none.
    """
    return [
        name
        for name in FUNCTIONS
        if all(source_of(each) == sources()[each] for each in {name, *_used(sources()[name])})
    ]
