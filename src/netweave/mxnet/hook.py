"""The import hook that answers ``import mxnet`` in unchanged scripts and notebooks."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import json
import re
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from netweave.errors import ReadError, UsageError

OWN, ORIGINAL = "netweave.mxnet", "mxnet"


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``mxnet`` and its modules here, whether or not MXNet is installed."""

    def __init__(self) -> None:
        self._specs: dict[str, Any] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] != ORIGINAL:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = _module(spec.name)
        self._specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # the import system has given our module the spec of MXNet's name
        spec = module.__spec__
        if spec is not None:
            module.__spec__ = self._specs.pop(spec.name)


def _module(name: str) -> ModuleType:
    """Return our module for a name of MXNet's; namespaces that are no modules become one.

    Raises:
        ModuleNotFoundError: There is none.
    """
    value: Any = importlib.import_module(OWN)
    for part in name.split(".")[1:]:
        try:
            value = getattr(value, part)
        except AttributeError as error:
            try:
                value = importlib.import_module(f"{value.__name__}.{part}")
            except (ImportError, AttributeError):
                raise ModuleNotFoundError(str(error), name=name) from error
    if isinstance(value, ModuleType):
        return value
    made = ModuleType(name)
    made.__dict__["__getattr__"] = lambda key: getattr(value, key)
    return made


def install() -> None:
    """Let ``import mxnet`` and ``from mxnet import ...`` find ``netweave.mxnet`` from now on.

    Raises:
        UsageError: MXNet itself is imported already.
    """
    loaded = sys.modules.get(ORIGINAL)
    if loaded is not None and loaded is not sys.modules.get(OWN):
        raise UsageError(
            "mxnet is imported already; call netweave.mxnet.install() before the first import of it"
        )
    if not any(isinstance(one, _Finder) for one in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def run(arguments: Sequence[str]) -> None:
    """Run a script, a notebook, or with ``-m`` a module, as ``python`` would, and answer MXNet's name.

    Args:
        arguments: Its path or name, then its own arguments.

    Raises:
        ReadError: The notebook cannot be read, or is none.
    """
    install()
    if arguments[0] == "-m":
        sys.argv[:] = arguments[1:]
        sys.path.insert(0, "")
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    path = Path(arguments[0])
    sys.argv[:] = arguments
    sys.path.insert(0, str(path.absolute().parent))
    if path.suffix != ".ipynb":
        runpy.run_path(str(path), run_name="__main__")
        return
    main = ModuleType("__main__")
    sys.modules["__main__"] = main
    for number, cell in enumerate(_cells(path), 1):
        exec(compile(cell, f"{path}, cell {number}", "exec"), main.__dict__)


def _cells(path: Path) -> list[str]:
    """Return the cells of code of a notebook; lines of IPython's own (%..., !...) are left out.

    Raises:
        ReadError: The file cannot be read, or is no notebook.
    """
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        cells = notebook["cells"] if "cells" in notebook else notebook["worksheets"][0]["cells"]
        texts = [cell.get("source", cell.get("input")) for cell in cells if cell["cell_type"] == "code"]
        sources = ["".join(text) for text in texts]
    except OSError as error:
        raise ReadError(f"cannot be read: {error.strerror or error}", place=str(path)) from error
    except (ValueError, LookupError, TypeError) as error:
        raise ReadError(
            "is not a Jupyter notebook: JSON with a list 'cells' is expected", place=str(path)
        ) from error
    return [re.sub(r"^(\s*)[%!].*$", r"\1pass", text, flags=re.MULTILINE) for text in sources]
