"""Models that are code: what Netweave's own process does with their files, and with what the child answers.

The code itself runs in a guarded child process, which is not fuzzed.
"""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.hostile.mutations import mutate_json, mutate_text, mutate_wire, mutate_zip
from benchmarks.hostile.mutations.archives import write_members
from benchmarks.hostile.readers.reader import Reader, Seed, one_file
from netweave.files.json_text import read_json
from netweave.files.library_errors import reading
from netweave.files.model_imports import imports_of
from netweave.formats.pytorch.exported import Tables, read_exported
from netweave.formats.pytorch.file_types import Kind, kind_of
from tests.hostile.nets import nets

_CODE = b"""import math
import torch
from torch import nn
from .parts import Block, pool
from blocks.conv import *
try:
    import missing_package
except ImportError:
    missing_package = None

class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.block = Block(3, width, kernel_size=3)

    def forward(self, x):
        return pool(self.block(x), 2)
"""
_PARTS = b"import torch\nfrom torch import nn\nfrom . import other\nclass Block(nn.Module): pass\n"


def readers() -> list[Reader]:
    """Return the readers."""
    return [
        Reader("pytorch.container", _containers),
        Reader("code.imports", _imports),
        Reader("pytorch.answer", _answers),
    ]


def _containers() -> list[Seed]:
    """Return archives with the members by which TorchScript and exported programs are known."""
    script = [("net/data.pkl", b"\x80\x02}."), ("net/code/__torch__.py", _CODE), ("net/version", b"3\n")]
    program = [("archive_format", b"pt2"), ("models/model.json", b"{}"), ("byteorder", b"little")]
    known = {Kind.SCRIPT: script, Kind.PROGRAM: [(f"net/{name}", content) for name, content in program]}

    return [one_file("x.pt", write_members(members), mutate_zip, kind_of) for members in known.values()]


def _imports() -> list[Seed]:
    """Return files of code whose imports are followed without running them."""
    files = {"net/model.py": _CODE, "net/parts.py": _PARTS, "net/blocks/conv.py": _PARTS}

    def read(folder: Path) -> object:
        path = folder / "net" / "model.py"
        with reading("model.py"):
            return kind_of(path), imports_of(path.resolve(), known=("torch",))

    return [Seed(files, name, mutate_text, read) for name in files]


def _answers() -> list[Seed]:
    """Return what a child process leaves, which a hostile net may have written: ONNX and tables."""
    net = nets()["onnx"]
    tables = {
        "modules": {"conv": {"type": "Conv2d", "settings": {"stride": [1, 1], "bias": True}}},
        "state": ["w", "conv.weight"],
        "trainable": ["w"],
        "notes": ["a note"],
    }
    files = {"net.onnx": net.files[net.damaged], "tables.json": json.dumps(tables).encode()}

    def read(folder: Path) -> object:
        with reading("model.py"):
            found = Tables.parse(read_json(folder / "tables.json"), place="model.py")
            return read_exported(folder / "net.onnx", found, place="model.py", files={})

    return [
        Seed(files, "net.onnx", mutate_wire, read),
        Seed(files, "tables.json", mutate_json, read),
    ]
