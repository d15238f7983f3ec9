"""The project's own examples, to try the workbench with."""

from __future__ import annotations

import ast
import runpy
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
_PLACES = (HERE / "examples", HERE.parents[2] / "examples")
"""In a wheel the examples lie in this package, in a source checkout beside ``src``."""

PADDING = next((place for place in _PLACES if place.is_dir()), _PLACES[-1]) / "padding"


@dataclass(frozen=True, slots=True)
class Sample:
    """A pair of nets.

    Attributes:
        key: Its name in addresses.
        title: What it is, for people.
        text: What it shows, in a sentence.
        a: Files of the first net: name and content.
        b: Files of the second net.
    """

    key: str
    title: str
    text: str
    a: dict[str, bytes]
    b: dict[str, bytes]


@cache
def samples() -> dict[str, Sample]:
    """Return the samples by key; their weights are drawn by the example's own program."""
    with tempfile.TemporaryDirectory() as folder:
        runpy.run_path(str(PADDING / "make_weights.py"))["write"](Path(folder))
        drawn = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    demo = _constants(PADDING / "demo.py")
    port = (PADDING / "leaves-symbol.json").read_text(encoding="utf-8")
    net = {
        "leaves.prototxt": (PADDING / "leaves.prototxt").read_bytes(),
        "leaves.caffemodel": drawn["leaves.caffemodel"],
    }
    weights = {"leaves-0000.params": drawn["leaves-0000.params"]}
    rows = (
        Sample(
            "padding",
            "A port with a mistake",
            "A Caffe net and its MXNet port, in which a pooling layer has padding that the original lacks.",
            net,
            {"leaves-symbol.json": port.encode(), **weights},
        ),
        Sample(
            "mended",
            "The fixed port",
            "The same pair after the proposed fix: the nets are identical.",
            net,
            {"leaves-symbol.json": port.replace(demo["WRONG"], demo["RIGHT"]).encode(), **weights},
        ),
    )
    return {sample.key: sample for sample in rows}


def _constants(file: Path) -> dict[str, str]:
    """Return the texts that a program gives names to, without running it."""
    statements = ast.parse(file.read_text(encoding="utf-8")).body
    return {
        target.id: node.value.value
        for node in statements
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value.value, str)
    }
