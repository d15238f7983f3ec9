"""The import hook that answers ``keras`` and ``tensorflow.keras`` in unchanged scripts and notebooks."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import re
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from netweave.api.import_hook import ImportHook, cells_of, run_script
from netweave.keras.handing_over import hand_over, reason_for_keras
from netweave.keras.operation import set_random_seed
from netweave.keras.originals import REAL, spec_of

OLD_MODULES = {
    "layers": (
        *("advanced_activations", "convolutional", "convolutional_recurrent", "core", "embeddings", "local"),
        *("merge", "noise", "normalization", "pooling", "recurrent", "wrappers"),
    ),
    "utils": ("all_utils", "data_utils", "generic_utils", "io_utils", "layer_utils", "np_utils", "vis_utils"),
    "models": ("engine", "engine.training", "engine.topology", "engine.sequential", "training"),
    "backend": ("backend.tensorflow_backend", "backend.common"),
}
"""Modules of Keras 1 and 2, by the module in which Keras 3 has their names."""


def spelling(name: str) -> str:
    """Return our module for a module of any version of Keras.

    >>> spelling("layers.core"), spelling("utils.np_utils"), spelling("engine.topology"), spelling("losses")
    ('layers', 'utils', 'models', 'losses')
    """
    first, _, rest = name.partition(".")
    if rest in OLD_MODULES.get(first, ()):
        return first
    return next((module for module, old in OLD_MODULES.items() if name in old), name)


class _Hook(ImportHook):
    """Leaves to an installed Keras the modules that its own code imports."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname in REAL:
            return spec_of(fullname)
        if fullname.startswith(tuple(f"{name}." for name in REAL)):
            return None
        return super().find_spec(fullname, path, target)


class _OldModules(ImportHook):
    """Finds modules of older versions in those of ours: ``from keras.utils import np_utils``."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        name = fullname.removeprefix("netweave.keras.")
        return None if spelling(name) == name else super().find_spec(fullname, path, target)


class _TensorFlow(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a stand-in for TensorFlow where a script asks for it; libraries that look for it find none."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in {"tensorflow", "tensorflow.python"} or _asked_by_library():
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return stand_in(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module is complete."""


def _asked_by_library() -> bool:
    """Return whether the code that imports something is that of an installed package."""
    frame = sys._getframe(2)
    while frame.f_back is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    return "site-packages" in frame.f_code.co_filename


def stand_in(name: str = "tensorflow") -> ModuleType:
    """Return a module that scripts import as TensorFlow: it has Keras, and what they set up before it."""
    module = ModuleType(name, "What scripts for Keras need of TensorFlow.")
    keras = importlib.import_module("netweave.keras")
    no_devices = SimpleNamespace(
        list_physical_devices=lambda *kind: [],
        experimental=SimpleNamespace(list_physical_devices=lambda *kind: []),
    )
    seed = SimpleNamespace(set_seed=set_random_seed)

    def absent(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"netweave.keras answers tensorflow.keras and not tensorflow.{name}; "
            "write it with keras.ops, or with NumPy"
        )

    vars(module).update(keras=keras, config=no_devices, random=seed, set_random_seed=set_random_seed)
    vars(module).update(__version__="2.16.1", __getattr__=absent)
    return module


def install() -> None:
    """Let ``import keras`` and ``from tensorflow.keras import ...`` find ``netweave.keras`` from now on.

    Raises:
        UsageError: Keras or TensorFlow is imported already.
    """
    for original in ("keras", "tensorflow.keras", "tensorflow.python.keras"):
        _Hook(original, "netweave.keras", spelling).install()
    _OldModules("netweave.keras", "netweave.keras", spelling).install()
    if not any(isinstance(one, _TensorFlow) for one in sys.meta_path):
        sys.meta_path.insert(0, _TensorFlow())


def run(arguments: Sequence[str]) -> None:
    """Run a script, a notebook, or with ``-m`` a module, as ``python`` would, and answer Keras' name.

    What needs layers or training steps that are code is run by an installed Keras, which is said.

    Raises:
        ReadError: The notebook cannot be read, or is none.
    """
    reason = _reason_for_keras(arguments[0])
    if reason is None:
        install()
    else:
        engine = hand_over()
        _name_old_modules()
        sys.stderr.write(f"netweave.keras: {reason}: Keras itself runs this script, on {engine}\n")
    run_script(arguments)


def _reason_for_keras(script: str) -> str | None:
    """Return why Keras itself has to run a script or notebook, or a module beside it that it imports."""
    path = Path(script)
    if spec_of("keras") is None or not path.is_file():
        return None
    text = "\n".join(cells_of(path)) if path.suffix == ".ipynb" else path.read_text(errors="replace")
    reason = reason_for_keras(text)
    for module in _own_modules(text, path.absolute().parent):
        if reason is None:
            found = reason_for_keras(module.read_text(errors="replace"))
            reason = found and f"{module.name}: {found}"
    return reason


def _name_old_modules() -> None:
    """Let modules of Keras 1 and 2 be found in those of the Keras that a script was handed over to."""
    for name, old in OLD_MODULES.items():
        module = sys.modules.get(f"keras.{name}")
        if module is not None:
            sys.modules.update({f"keras.{name}.{one}": module for one in old})
            sys.modules.update({f"keras.{one}": module for one in old})


def _own_modules(text: str, folder: Path) -> list[Path]:
    """Return the files of modules and packages that a script imports, without those that are installed."""
    files = []
    for name in dict.fromkeys(re.findall(r"^\s*(?:from|import)\s+(\w+)", text, re.MULTILINE)):
        spec = importlib.machinery.PathFinder.find_spec(name, [str(folder), *sys.path])
        origin = Path(spec.origin) if spec is not None and spec.origin else Path()
        if (
            origin.suffix == ".py"
            and not {"site-packages", "netweave"} & set(origin.parts)
            and _is_no_library(origin)
        ):
            files += sorted(origin.parent.glob("*.py")) if origin.name == "__init__.py" else [origin]
    return files


def _is_no_library(file: Path) -> bool:
    return not file.is_relative_to(Path(sysconfig.get_path("stdlib")))
