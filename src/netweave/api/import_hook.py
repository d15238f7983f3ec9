"""Import hooks that answer a framework's name in unchanged scripts and notebooks."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import json
import re
import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from netweave.errors import ReadError, UsageError


class ImportHook(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a framework's modules in a package of ours, whether or not the framework is installed.

    Args:
        original: The framework's name, as scripts import it.
        own: Our package.
        spellings: Our module for a name of the framework's, if the names differ: a function of the name
            without the framework's that returns the one without our package's.
    """

    def __init__(self, original: str, own: str, spellings: Callable[[str], str] = str) -> None:
        self.original, self.own = original, own
        self._spellings = spellings
        self._specs: dict[str, Any] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return that a module of the framework is found here; None for any other."""
        if fullname != self.original and not fullname.startswith(f"{self.original}."):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return our module."""
        module = self._module(spec.name)
        self._specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give our module its own spec back; it has been executed."""
        # the import system has given our module the spec of the framework's name
        spec = module.__spec__
        if spec is not None:
            module.__spec__ = self._specs.pop(spec.name)

    def _module(self, name: str) -> ModuleType:
        """Return our module for a name of the framework's; namespaces that are no modules become one.

        Raises:
            ModuleNotFoundError: There is none.
        """
        value: Any = importlib.import_module(self.own)
        own = self._spellings(name[len(self.original) + 1 :])
        for part in own.split(".") if own else ():
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

    def install(self) -> None:
        """Answer imports of the framework from now on.

        Raises:
            UsageError: The framework itself is imported already.
        """
        loaded = sys.modules.get(self.original)
        if loaded is not None and loaded is not self._module(self.original):
            raise UsageError(
                f"{self.original} is imported already; call {self.own}.install() "
                "before the first import of it"
            )
        installed = [one for one in sys.meta_path if isinstance(one, ImportHook)]
        if not any(one.original == self.original for one in installed):
            sys.meta_path.insert(0, self)


def run_script(arguments: Sequence[str]) -> None:
    """Run a script, a notebook, or with ``-m`` a module, as ``python`` would.

    Args:
        arguments: Its path or name, then its own arguments.

    Raises:
        ReadError: The notebook cannot be read, or is none.
    """
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
    for number, cell in enumerate(cells_of(path), 1):
        exec(compile(cell, f"{path}, cell {number}", "exec"), main.__dict__)


def run_command_line(package: str, run: Callable[[Sequence[str]], None]) -> None:
    """Run what the command line ``python -m PACKAGE`` names."""
    arguments = sys.argv[1:]
    if not [one for one in arguments[:2] if one != "-m"] or arguments[0] in {"-h", "--help"}:
        sys.exit(f"usage: python -m {package} SCRIPT.py|NOTEBOOK.ipynb|-m MODULE [ARGUMENT ...]")
    run(arguments)


def cells_of(path: Path) -> list[str]:
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
