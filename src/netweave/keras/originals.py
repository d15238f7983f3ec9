"""What an installed Keras does for us: data sets, preparation of data, and nets that come with it."""

from __future__ import annotations

import importlib
import importlib.machinery
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from netweave.installation import install_command

REAL = ("keras.src", "keras._tf_keras")
"""Packages of an installed Keras that its own code imports, also where ours answers its name."""

MODULES = ("applications", "datasets", "preprocessing", "random")
"""Modules that compute nothing of a net, or make one of which we take the configuration."""

UTILS = (
    *("array_to_img", "audio_dataset_from_directory", "get_file", "image_dataset_from_directory"),
    *("img_to_array", "load_img", "normalize", "pad_sequences", "save_img", "split_dataset"),
    *("text_dataset_from_directory", "timeseries_dataset_from_array", "get_source_inputs"),
)
"""Functions of ``keras.utils`` around data."""


def spec_of(name: str) -> importlib.machinery.ModuleSpec | None:
    """Return where an installed Keras has a module, whatever answers its name; None without one."""
    folders: list[str] | None = None
    found = None
    whole = ""
    for part in name.split("."):
        whole = f"{whole}.{part}" if whole else part
        found = importlib.machinery.PathFinder.find_spec(whole, folders)
        if found is None:
            return None
        folders = list(found.submodule_search_locations or ())
    return found


def original(name: str) -> Any:
    """Return a module or function of an installed Keras, which computes with torch if nothing else is said.

    Args:
        name: Its name without that of the package: ``datasets``, ``utils.load_img``.

    Raises:
        AttributeError: Keras is not installed, or has no such name.
    """
    if spec_of("keras") is None:
        raise AttributeError(
            f"keras.{name} is Keras' own, which is not installed; {install_command('keras')}"
        )
    os.environ.setdefault("KERAS_BACKEND", "torch")
    module, _, rest = name.partition(".")
    # its names for users of TensorFlow are all of them: Keras keeps those of its second version there alone
    value: Any = _import(f"keras._tf_keras.keras.{module}")
    for part in rest.split(".") if rest else ():
        value = getattr(value, part)
    return value


def original_module(name: str) -> ModuleType:
    """Return a module of an installed Keras; those of nets make models of ours.

    Raises:
        AttributeError: Keras is not installed.
    """
    found: ModuleType = original(name)
    return _Nets(found) if name == "applications" else found


class _Nets(ModuleType):
    """``keras.applications``: nets that Keras builds and we compute."""

    def __init__(self, module: ModuleType) -> None:
        super().__init__(module.__name__, module.__doc__)
        self._module = module
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        if isinstance(value, ModuleType):
            return _Nets(value)
        return partial(_ours, value) if name[:1].isupper() else value

    def __dir__(self) -> list[str]:
        return dir(self._module)


def _ours(build: Any, *args: Any, **kwargs: Any) -> Any:
    """Return our model of a net of Keras, with its arrays.

    Args:
        build: Keras' function.
        args: What it is given.
        kwargs: The same by name; ``input_tensor`` may be a tensor of ours.
    """
    from netweave.keras.models import Model, model_from_config

    tensor = kwargs.pop("input_tensor", None)
    if tensor is not None:
        kwargs["input_shape"] = tuple(tensor.shape[1:])
    net = build(*args, **kwargs)
    description = json.loads(net.to_json())
    model = model_from_config(description)
    model.set_weights([np.asarray(one) for one in net.weights])
    return model if tensor is None else Model(tensor, model(tensor), name=model.name)


def _import(name: str) -> ModuleType:
    """Import a module of an installed Keras, also where a hook answers its name with ours."""
    if name not in sys.modules:
        with _names_left_to_keras():
            importlib.import_module(name)
    return sys.modules[name]


@contextmanager
def _names_left_to_keras() -> Iterator[None]:
    """Let Keras import its own modules by their names; afterwards these are what they were."""
    finders = list(sys.meta_path)
    before = {key: module for key, module in sys.modules.items() if _is_public(key)}
    loaded = before.get("keras")
    if loaded is not None and loaded.__name__ == "keras":
        yield
        return
    for key in before:
        del sys.modules[key]
    sys.meta_path[:] = [one for one in finders if getattr(one, "own", "") != "netweave.keras"]
    try:
        yield
    finally:
        sys.meta_path[:] = finders
        for key in [key for key in sys.modules if _is_public(key)]:
            del sys.modules[key]
        sys.modules.update(before)


def _is_public(name: str) -> bool:
    """Return whether a module has a name that scripts import, not one of Keras' own code."""
    return name == "keras" or (name.startswith("keras.") and not name.startswith(REAL))
