"""What no reader takes, under the names of each: other files, folders, devices, weights without a net."""

from __future__ import annotations

import gzip
import io
import os
import zipfile
from pathlib import Path

import numpy as np

from netweave.errors import ReadError
from tests.hostile.cases.case import add, file
from tests.hostile.nets import PROTOTXT, nets

PICKLE = b"\x80\x04\x95\x1a\0\0\0\0\0\0\0}\x94\x8c\x07weights\x94]\x94G?\xf0\0\0\0\0\0\0as."
"""What Python makes of ``{"weights": [1.0]}``."""


def _archive() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("data.pkl", PICKLE)
    return held.getvalue()


_FOREIGN = {
    "empty": (b"", "the file is empty"),
    "a pickle": (PICKLE, "pickle"),
    "an archive": (_archive(), "zip archive"),
    "compressed": (gzip.compress(b"net"), "gzip archive"),
    "an image": (b"\x89PNG\r\n\x1a\n" + bytes(100), "a picture"),
    "noise": (np.random.default_rng(3).bytes(5000), "not a net|protobuf|cannot be|is no|expected|damaged"),
    "text in UTF-16": ("name: 'net'".encode("utf-16"), "not a net|UTF|NUL|is no|expected|damaged"),
}
_NAMES = ("net.prototxt", "net.caffemodel", "net-symbol.json", "net-0001.params", "net.onnx", "net")

for _what, (_content, _message) in _FOREIGN.items():
    for _name in _NAMES:
        add(f"{_what} as {_name}", file(_name, _content), ReadError, _message)


def _folder(folder: Path) -> Path:
    (folder / "net.onnx").mkdir()
    return folder / "net.onnx"


def _pipe(folder: Path) -> Path:
    os.mkfifo(folder / "net.prototxt")
    return folder / "net.prototxt"


def _circular_link(folder: Path) -> Path:
    (folder / "net.onnx").symlink_to("net.onnx")
    return folder / "net.onnx"


def _device_as_weights(folder: Path) -> Path:
    path = file("small.prototxt", PROTOTXT)(folder)
    return Path(f"{path},/dev/zero")


add("a folder", _folder, ReadError, "is a folder, expected a file")
add("a pipe", _pipe, ReadError, "is a pipe or a device, expected a file")
add("a link to itself", _circular_link, ReadError, "cannot be read")
add("missing", lambda folder: folder / "net.onnx", ReadError, "there is no such file")
add("a name too long", lambda folder: folder / ("x" * 300), ReadError, "cannot be read: File name too long")
add("a name with a NUL", lambda folder: folder / "a\0b", ReadError, "cannot be read: embedded null")
add("a device as weights", _device_as_weights, ReadError, "/dev/zero: is a pipe or a device")

# Weights without their net.

add(
    "arrays of MXNet alone", file("net.params", nets()["params"].files["small-0001.params"]),
    ReadError, "holds arrays and no net",
)  # fmt: skip
