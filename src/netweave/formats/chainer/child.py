"""The program that the guarded child process runs: a model class to a graph. It is never imported.

It is given a request as JSON, and leaves ``net.onnx`` in its working folder, or an error.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from netweave.errors import ReadError
from netweave.files.hdf5 import HDF5_MAGIC, read_hdf5
from netweave.files.missing_modules import importing
from netweave.files.model_imports import Wanted, construct, imported, imports_of, in_folder, own_factories
from netweave.files.npy import read_npz
from netweave.files.onnx.model import save
from netweave.files.seccomp import answer
from netweave.formats.chainer.dialect import OWN_MODULES
from netweave.formats.chainer.shim import installed
from netweave.formats.chainer.shim.link import Link, modes_given
from netweave.formats.chainer.shim.recorder import Recorder
from netweave.formats.chainer.tracing import trace

NET = Path("net.onnx")


def work(request: dict[str, Any]) -> None:
    """Do what a request says."""
    arrays = None
    if request["weights"]:
        arrays = read_weights(Path(request["weights"]), place=request["weights_place"])
    path, place = Path(request["net"]), request["place"]
    root = Path(request["root"]) if request["root"] else None
    imports = imports_of(path, known=OWN_MODULES, root=root)
    request["beside"] = imports.places(path, place)
    with installed(is_training=request["train"], missing=imports.missing):
        folders, first = map(str, imports.folders), map(str, imports.first)
        with in_folder(request["trusted_folder"]):
            with importing():
                is_own = imports.is_own_used
                code = imported(
                    path, name=imports.name, folders=[*folders], first=[*first], is_own_used=is_own
                )
            model = _model(code, request)
        files = {request["net"]: place, **request["beside"]}
        recorder = Recorder(path.stem, files=files, place=place, arrays=arrays)
        graph = trace(model, recorder, request["input_shapes"], request["likely_shapes"])
    graph.notes += _mode_notes(request["train"])
    graph.notes += recorder.left_over(model, request["weights_place"])
    save(graph, NET)


def _mode_notes(train: bool) -> tuple[str, ...]:
    """Return the note on arguments of Chainer 1 that say how to compute, if the code gives any."""
    given = sorted(modes_given & {"test", "train"})
    mode = "for training" if train else "for inference"
    text = f"ignored: {' and '.join(f'{name}=' for name in given)} of Chainer 1; read {mode}"
    return (text,) if given else ()


def _model(code: ModuleType, request: dict[str, Any]) -> Link:
    """Return the model: of the only class, or of the class or function that is named."""
    classes, functions = own_factories(code, Link)
    candidates = classes if len(classes) == 1 else classes | functions
    model: Link = construct(code, candidates, Wanted.of_request(request, Link, noun="a link")).model
    return model


def read_weights(path: Path, *, place: str) -> dict[str, np.ndarray]:
    """Return the arrays of a file by path (``conv1/W``), without the slash that ``save_hdf5`` begins with.

    Args:
        path: The file.
        place: Its name for messages.

    Raises:
        ReadError: It is damaged, or neither ``.npz`` nor HDF5.
        UsageError: It is HDF5, and h5py is not installed.
    """
    with path.open("rb") as file:
        head = file.read(8)
    if head == HDF5_MAGIC:
        return dict(read_hdf5(path, place=place).arrays())
    if head[:2] != b"PK":
        raise ReadError("is not a weights file of Chainer (.npz or HDF5)", place=place)
    return {name.lstrip("/"): array for name, array in read_npz(path, place=place).items()}


if __name__ == "__main__":
    answer(work)
