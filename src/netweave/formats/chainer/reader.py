"""Reading a Chainer model: its class runs in a guarded child process, which leaves the graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.files.construction_lines import classes_with_arguments, find_construction
from netweave.files.model_imports import imports_of
from netweave.files.onnx.model import read_saved
from netweave.files.python_code import run_reader
from netweave.formats.chainer.dialect import OWN_MODULES

if TYPE_CHECKING:
    from netweave.files import Source
    from netweave.graph import Graph

CHILD = Path(__file__).with_name("child.py")


def read(source: Source) -> Graph:
    """Read a model class with its weights.

    A class that must be given arguments, where nobody gives any, is constructed as its own file does it, or a
    script beside it, with the defaults of the script's options; a note says so.

    Raises:
        SourceError: The files cannot be read, the code fails, may not run, or calls what is not recorded.
        UsageError: Sizes or the class are missing, or something is named that is not there.
    """
    place = str(source.net)
    source, notes = _with_arguments(source)
    files = [source.net, *([source.weights] if source.weights else [])]
    root = source.root.resolve() if source.root is not None else None
    levels = None if source.around else 1
    beside = imports_of(source.net.resolve(), known=OWN_MODULES, levels=levels, root=root).files
    request: dict[str, Any] = {"train": source.phase == "TRAIN", "root": str(root) if root else None}
    with run_reader(source, CHILD, ["net.onnx"], readable=beside, **request) as (net,):
        graph = read_saved(net, place=place, files=[str(path) for path in files])
    graph.notes += notes
    return graph


MAX_SCRIPTS = 50
"""So many files beside a model are searched for the line that constructs it."""


def _with_arguments(source: Source) -> tuple[Source, tuple[str, ...]]:
    """Return the wishes with the arguments that a script gives the model's class, and a note on them."""
    if source.arguments or source.config is not None or source.module:
        return source, ()
    classes = classes_with_arguments(source.net.read_text(errors="replace"))
    names = [source.entry] if source.entry else list(reversed(classes))  # the whole net comes after its parts
    if not names or not all(classes.get(name) for name in names):
        return source, ()
    beside = sorted(source.net.absolute().parent.glob("*.py"))[:MAX_SCRIPTS] if source.around else []
    for script in dict.fromkeys([source.net.absolute(), *beside]):
        text = script.read_text(errors="replace")
        found = find_construction(text, [name for name in names if name in text])
        if found:
            call = f"{found.name}({found.arguments})"
            note = (
                f"nobody said the arguments of {found.name!r}: {call}, as {script.name}:{found.line} has it"
            )
            return replace(source, entry=found.name, arguments=found.arguments), (note,)
    return source, ()
