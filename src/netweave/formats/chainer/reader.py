"""Reading a Chainer model: its class runs in a guarded child process, which leaves the graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from netweave.files import read_bytes
from netweave.files.guard_answer import failure
from netweave.files.model_imports import LEVELS, imports_of
from netweave.files.onnx.save import read_saved
from netweave.files.sandbox import run_guarded
from netweave.formats.chainer.own import OWN_MODULES

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
    beside = imports_of(source.net.resolve(), known=OWN_MODULES, levels=LEVELS if source.around else 1).files
    if source.weights is not None:
        read_bytes(source.weights)
    request = {
        "net": str(source.net.resolve()),
        "place": place,
        "entry": source.entry,
        "weights": str(source.weights.resolve()) if source.weights else None,
        "weights_place": str(source.weights) if source.weights else "",
        "input_shapes": {name: list(shape) for name, shape in source.input_shapes.items()},
        "train": source.phase == "TRAIN",
    }
    with run_guarded(
        CHILD, [json.dumps(request)], readable=[*files, *beside], place=place, trust=source.trust
    ) as outcome:
        net = outcome.file("net.onnx")
        if outcome.status != 0 or net is None:
            raise failure(outcome, place)
        return read_saved(net, place=place, files=[str(path) for path in files])
