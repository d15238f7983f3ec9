"""Scripts that an installed Keras runs as a whole: why one needs it, and what it then imports.

They need what cannot be a Job: layers and training steps that are code, layers that draw or look up words,
and whatever a file names by a registered class.
"""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import os
import sys
from contextlib import nullcontext
from types import ModuleType
from typing import Any

from netweave.keras.originals import original, spec_of

OWN_RULES = frozenset(
    {"Callback", "Constraint", "Initializer", "LearningRateSchedule", "Loss", "Regularizer"}
)
"""Classes that a script may derive from without being handed over, though they have a ``call``."""

AROUND_CLASSES = ("clone_model", "custom_object_scope", "get_custom_objects", "register_keras_serializable")
"""Functions of Keras around classes of the user's own."""


def reason_for_keras(code: str) -> str | None:
    """Return why a script needs Keras itself, with the line; None if it does not, or cannot be parsed.

    An installed Keras says which layers and functions there are.
    """
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return None
    if not _imported(tree) & {"keras", "tensorflow"}:
        return None
    ours = importlib.import_module("netweave.keras.layers")
    layers = {name for name in vars(original("layers")) if name[:1].isupper()}
    absent = {name for name in layers if not hasattr(ours, name)} | {*AROUND_CLASSES}
    backend = importlib.import_module("netweave.keras.backend")
    functions = [name for name in vars(original("backend")) if not hasattr(backend, name)]
    absent |= {f"{module}.{name}" for module in ("K", "backend") for name in functions}
    for node in ast.walk(tree):
        found = _reason(node, absent)
        if found:
            return f"{found} in line {getattr(node, 'lineno', 1)}"
    return None


def _imported(tree: ast.AST) -> set[str]:
    """Return the packages that a script imports."""
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {name.split(".")[0] for name in names}


def _reason(node: ast.AST, absent: set[str]) -> str | None:
    if isinstance(node, ast.ClassDef):
        methods = {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
        is_rule = bool({_last(base) for base in node.bases} & OWN_RULES)
        if node.bases and not is_rule and methods & {"call", "train_step", "test_step"}:
            return f"class {node.name}"
    if isinstance(node, ast.Call):
        name, module = _last(node.func), _last(getattr(node.func, "value", node))
        if name in absent or f"{module}.{name}" in absent:
            return name
        dropout = {one.arg: one.value for one in node.keywords}.get("recurrent_dropout")
        if dropout is not None and not (isinstance(dropout, ast.Constant) and not dropout.value):
            return "recurrent_dropout"
    return None


def _last(node: ast.AST) -> str:
    """Return the last name of ``a.b.c``."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


NAMES_IN_OPS = {"concat": "concatenate", "constant": "convert_to_tensor", "pow": "power", "range": "arange"}
"""TensorFlow's functions that ``keras.ops`` has under another name, besides ``reduce_...``."""


class _OfTensorFlow(ModuleType):
    """TensorFlow for a script that Keras runs on torch: its Keras, and functions that Keras has too."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(original("ops"), NAMES_IN_OPS.get(name, name).removeprefix("reduce_"), None)
        if found is None or name.startswith("__"):
            raise AttributeError(
                f"Keras runs this script on torch, where there is no tensorflow.{name}; write it with "
                "keras.ops, or install TensorFlow"
            )
        return found


def hand_over() -> str:
    """Let ``import keras`` and ``import tensorflow`` find what is installed; return what Keras computes with.

    Without TensorFlow that is torch, and ``tensorflow`` has the functions that Keras has too.
    """
    if spec_of("tensorflow") is not None and "KERAS_BACKEND" not in os.environ:
        return "TensorFlow"
    original("layers")
    keras: Any = sys.modules["keras._tf_keras.keras"]
    tensorflow: Any = _OfTensorFlow("tensorflow", "What scripts for Keras need of TensorFlow.")
    random: Any = ModuleType("tensorflow.random")
    random.set_seed, random.normal, random.uniform = (
        keras.utils.set_random_seed,
        keras.random.normal,
        keras.random.uniform,
    )
    tensorflow.keras, tensorflow.random, tensorflow.__path__ = keras, random, []
    tensorflow.math = tensorflow.nn = tensorflow
    tensorflow.executing_eagerly = lambda: True  # Keras asks, once there is a module of this name
    tensorflow.__spec__ = importlib.machinery.ModuleSpec("tensorflow", None)
    tensorflow.name_scope, tensorflow.__version__ = nullcontext, "2.16.1"
    tensorflow.float32, tensorflow.int32, tensorflow.function = "float32", "int32", lambda function: function
    sys.modules.update({"keras": keras, "tensorflow": tensorflow, "tensorflow.keras": keras})
    for name, module in list(sys.modules.items()):
        if name.startswith("keras._tf_keras.keras."):
            short = name.removeprefix("keras._tf_keras.")
            sys.modules[short] = sys.modules[f"tensorflow.{short}"] = module
    return "torch"
