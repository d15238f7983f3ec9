"""Files and folders of activations, in the layouts in which runtimes write them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from netweave.api.reading import load
from netweave.errors import UsageError
from netweave.files.npy import parse_npy
from netweave.files.printed_tensors import read_printed_tensors
from netweave.files.source import read_bytes
from netweave.formats.pytorch.state import read_tensors
from netweave.graph.stored import stored_arrays

Arrays = dict[str, np.ndarray]

PICKLED = {".pt", ".pth", ".bin"}

PRINTED = {".txt", ".log"}
"""Text that llama.cpp prints."""

SUFFIXES = {".npy", ".npz", ".safetensors", ".pt", ".pth"}
"""Files of a folder that are read."""

OF_PROCESS = {"dump_index", "recompute_status"}
"""Tags in names of SGLang's dumper that say nothing of the tensor."""


def read_activations(path: Path) -> Arrays:
    """Return the tensors of a file or of all files in a folder, by the file and the name in it.

    The layouts, and where they were taken from, are in decision 0251.

    Raises:
        UsageError: A folder holds no file of tensors.
        ReadError: A file is damaged.
    """
    if not path.is_dir():
        return _of_file(path)
    files = sorted((file for file in path.rglob("*") if file.suffix in SUFFIXES), key=_order)
    if not files:
        raise UsageError(
            f"{path}: holds no .npy, .npz, .pt or .safetensors; a dump is a folder of them, or one file"
        )
    arrays: Arrays = {}
    for file in files:
        name = _name_of(file.relative_to(path).with_suffix(""))
        for key, x in _of_file(file).items():
            arrays[f"{name}/{key}" if key not in {"", "value"} else name] = x
    return arrays


def _order(file: Path) -> tuple[int, int, str]:
    """Return where a file stands: by the number that SGLang's dumper gives it, else by its time."""
    index = re.search(r"dump_index=(\d+)", file.name)
    return (int(index[1]), 0, file.name) if index else (0, file.stat().st_mtime_ns, file.name)


def _of_file(file: Path) -> Arrays:
    if file.suffix == ".npy":
        return {"": parse_npy(read_bytes(file), place=str(file))}
    if file.suffix in PRINTED:
        return read_printed_tensors(file)
    if file.suffix in PICKLED:
        return read_tensors(file)
    return dict(stored_arrays(load(file)))


def _name_of(path: Path) -> str:
    """Return the name of a file's tensor: SGLang's dumper writes ``step=0___rank=1___name=h___layer_id=3``.

    >>> _name_of(Path("step=0___rank=1___dump_index=7___name=h___layer_id=3"))
    'step=0/rank=1/h/layer_id=3'
    """
    tags = dict(part.partition("=")[::2] for part in path.name.split("___"))
    if "name" not in tags:
        return path.as_posix()
    shown = [
        value if key == "name" else f"{key}={value}" for key, value in tags.items() if key not in OF_PROCESS
    ]
    return "/".join(shown)
