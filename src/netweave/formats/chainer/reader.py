"""Reading a Chainer model: its class runs in a guarded child process, which leaves the graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

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

    Raises:
        SourceError: The files cannot be read, the code fails, may not run, or calls what is not recorded.
        UsageError: Sizes or the class are missing, or something is named that is not there.
    """
    place = str(source.net)
    files = [source.net, *([source.weights] if source.weights else [])]
    root = source.root.resolve() if source.root is not None else None
    levels = None if source.around else 1
    beside = imports_of(source.net.resolve(), known=OWN_MODULES, levels=levels, root=root).files
    request: dict[str, Any] = {"train": source.phase == "TRAIN", "root": str(root) if root else None}
    with run_reader(source, CHILD, ["net.onnx"], readable=beside, **request) as (net,):
        return read_saved(net, place=place, files=[str(path) for path in files])
