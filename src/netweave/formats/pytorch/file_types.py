"""Recognition of PyTorch's files."""

from __future__ import annotations

import enum
import re
import zipfile
from importlib import metadata
from pathlib import Path

from netweave.files import Source
from netweave.files.model_imports import imported_packages, imports_of
from netweave.files.python_code import MAX_CODE_BYTES, imports_package
from netweave.files.source import is_folder
from netweave.formats.pytorch.state import is_legacy

OTHER_FRAMEWORKS = (
    "chainer", "equinox", "flax", "haiku", "jax", "keras", "keras_hub", "mlx", "mxnet", "paddle",
    "tensorflow",
)  # fmt: skip
"""Code that imports one of them is not PyTorch's because something that it imports is."""

_MODULE = re.compile(rb"^class[ \t]+\w+\([^)\n]*\bnn\.Module\b", re.MULTILINE)
"""A class of a file that has ``nn`` from a file of parts: ``from .unet_parts import *``."""


class Kind(enum.Enum):
    """A kind of file."""

    CODE = "Python code"
    FOLDER = "a Hugging Face model folder"
    PROGRAM = "an exported program"
    SCRIPT = "TorchScript"
    STATE = "weights"


def kind_of(path: Path) -> Kind | None:
    """Return the kind of a file, None if it is not PyTorch's."""
    try:
        with path.open("rb") as file:
            head = file.read(64)
            if path.suffix == ".py":
                code = head + file.read(MAX_CODE_BYTES)
                is_module = _MODULE.search(code) and not imports_package(code, *OTHER_FRAMEWORKS)
                is_model = is_module or imports_package(code, "torch", "torchvision")
                return Kind.CODE if is_model else None
        if is_legacy(head):
            return Kind.STATE
        return _archive_kind(path) if head[:4] == b"PK\x03\x04" else None
    except (OSError, zipfile.BadZipFile, ValueError, RuntimeError):  # a version of zip that is not known, too
        return None


def kind_of_source(source: Source) -> Kind | None:
    """Return the kind of what a caller names, None if it is not PyTorch's.

    Besides single files: a folder with ``config.json`` of Hugging Face, and code that has PyTorch from
    another file (``from nets import Net``), or is a module of an installed package.
    """
    if is_folder(source.net):
        return Kind.FOLDER if _is_hugging_face(source.net) else None
    kind = kind_of(source.net)
    if kind is None and source.net.suffix == ".py" and _runs_on_torch(source):
        return Kind.CODE
    return kind


def holds_weights(folder: Path) -> bool:
    """Return whether a Hugging Face model folder holds weights beside its configuration."""
    return any(any(folder.glob(pattern)) for pattern in ("*.safetensors", "*.bin"))


def _is_hugging_face(folder: Path) -> bool:
    try:
        text = (folder / "config.json").read_bytes()[:MAX_CODE_BYTES]
    except OSError:
        return False
    return b'"model_type"' in text or b'"architectures"' in text


def _runs_on_torch(source: Source) -> bool:
    """Return whether code that imports no framework itself imports something that imports PyTorch."""
    with source.net.open("rb") as file:
        code = file.read(MAX_CODE_BYTES)
    if imports_package(code, *OTHER_FRAMEWORKS):
        return False
    if source.module and source.root is None:
        return _needs_torch(source.module.partition(".")[0])
    root = source.root.resolve() if source.root is not None else None
    imports = imports_of(source.net.resolve(), levels=None if source.around else 1, root=root)
    texts = (path.read_bytes()[:MAX_CODE_BYTES] for path in imports.files)
    return any(imports_package(text, "torch") for text in texts) or any(
        map(_needs_torch, imported_packages(source.net))
    )


def _needs_torch(package: str) -> bool:
    """Return whether an installed package needs PyTorch, by what it says of itself."""
    try:
        requirements = metadata.requires(package) or []
    except metadata.PackageNotFoundError:
        return False
    return any(re.match(r"torch\b", requirement) for requirement in requirements)


def _archive_kind(path: Path) -> Kind | None:
    with zipfile.ZipFile(path) as archive:
        names = {name.partition("/")[2] for name in archive.namelist()}
    if "models/model.json" in names or "archive_format" in names:
        return Kind.PROGRAM
    if "data.pkl" not in names:
        return None
    return Kind.SCRIPT if any(name.startswith("code/") for name in names) else Kind.STATE
