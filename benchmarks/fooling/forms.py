"""Nets in other formats, so that a pair is compared across two of them.

Caffe, MXNet, PyTorch and Keras nets are written by Netweave, OpenVINO's by its own converter. What a format
cannot hold is refused, and counted as such.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import netweave
from benchmarks.source_module import source_module
from netweave.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _caffe(file: Path) -> str:
    return _written(file, file.with_suffix(".prototxt"))


def _mxnet(file: Path) -> str:
    return _written(file, file.with_name(f"{file.stem}-symbol.json"))


def _pytorch(file: Path) -> Any:
    """Return the module that the written source makes: reading source alone takes a process of its own."""
    source = file.with_name(f"{file.stem}_port.py")
    _written(file, source)
    return _loaded(source)


def _keras(file: Path) -> str:
    os.environ.setdefault("KERAS_BACKEND", "torch")
    source, saved = file.with_name(f"{file.stem}_keras.py"), file.with_suffix(".keras")
    _written(file, source, to="keras")
    _loaded(source).save(saved)
    return str(saved)


def _openvino(file: Path) -> str:
    import openvino

    target = file.with_suffix(".xml")
    openvino.save_model(openvino.convert_model(file), target, compress_to_fp16=False)
    return str(target)


FORMS: dict[str, Callable[[Path], Any]] = {
    "onnx": str,
    "caffe": _caffe,
    "mxnet": _mxnet,
    "pytorch": _pytorch,
    "keras": _keras,
    "openvino": _openvino,
}
"""Makers of a net in each format, from an ONNX file: they return what ``netweave.compare`` reads."""


def form(name: str, file: Path) -> Any | None:
    """Return a net in a format; None if the format cannot hold it.

    Args:
        name: The format, one of ``FORMS``.
        file: The net as ONNX; other files are written beside it.
    """
    try:
        return FORMS[name](file)
    except UnsupportedError:
        return None
    except Exception:
        if name == "openvino":  # its converter has no error of its own for what it does not take
            return None
        raise


def _written(file: Path, target: Path, *, to: str | None = None) -> str:
    files = netweave.save(netweave.load(file), target, to=to)
    return f"{files.net},{files.weights}" if files.weights is not None else str(files.net)


def _loaded(source: Path) -> Any:
    """Return the net of a source file that Netweave wrote, run in this process."""
    return source_module(source).load()
