"""Saves nets that are code of another framework, with that framework, for Netweave to read.

The code of a pair (``prepare`` in ``pairs.json``) is ours: it imports the net from the checkout and saves it
in the folder ``build``. Nothing of the repositories is changed; files of Python 2 that divide integers are
copied with its division written out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.ports.pairs import Pair

LIMIT_S = 300

KERAS_2 = '''
import importlib, sys, types, unittest.mock
import tf_keras
from tf_keras.applications import imagenet_utils
def given_or_default(shape, default_size=224, **rest):
    return shape or (default_size, default_size, 3)
NAMES = {}
for module in (tf_keras.layers, tf_keras.utils, tf_keras.initializers, tf_keras.models):
    NAMES.update({name: getattr(module, name) for name in dir(module) if not name.startswith("_")})
NAMES.update(random_normal=tf_keras.initializers.RandomNormal, constant=tf_keras.initializers.Constant,
             get_source_inputs=tf_keras.utils.get_source_inputs, layer_utils=types.SimpleNamespace(),
             _obtain_input_shape=given_or_default, Layer=tf_keras.layers.Layer,
             decode_predictions=imagenet_utils.decode_predictions, image=tf_keras.preprocessing.image,
             preprocess_input=imagenet_utils.preprocess_input, InputSpec=tf_keras.layers.InputSpec)
OLD = """keras.layers.convolutional keras.layers.pooling keras.layers.core keras.layers.normalization
keras.layers.merge keras.layers.advanced_activations keras.engine keras.engine.topology keras.utils.data_utils
keras.utils.layer_utils keras.initializers keras.applications.imagenet_utils keras_applications
keras_applications.imagenet_utils""".split()
for name in ("", ".layers", ".models", ".regularizers", ".backend", ".utils", ".applications",
             ".preprocessing", ".optimizers", ".callbacks", ".losses", ".applications.vgg16",
             ".preprocessing.image"):
    module = tf_keras
    for part in name.split(".")[1:]:
        module = getattr(module, part)
    sys.modules["keras" + name] = module
    sys.modules["tensorflow.keras" + name] = module
for name in OLD:
    module = types.ModuleType(name)
    module.__dict__.update(NAMES)
    module.__path__ = []
    sys.modules[name] = module
tf_keras.utils.layer_utils = NAMES["layer_utils"]
tf_keras.layers.warnings = importlib.import_module("warnings")
for name in ("PIL", "PIL.Image", "cv2", "matplotlib", "matplotlib.colors"):  # for drawing boxes
    sys.modules[name] = unittest.mock.MagicMock()
import tensorflow
tensorflow.keras = tf_keras
'''
"""Lets code for Keras 2 and its old modules run on ``tf_keras``."""

FREEZE = """
def freeze(model, path, shape):
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
    function = tf.function(lambda x: model(x, training=False))
    concrete = function.get_concrete_function(tf.TensorSpec(shape, tf.float32))
    frozen = convert_variables_to_constants_v2(concrete)
    with open(path, "wb") as file:
        file.write(frozen.graph.as_graph_def().SerializeToString())
"""


class PrepareError(Exception):
    """A net could not be saved."""


def prepare(pair: Pair, checkouts: Path, build: Path, pythons: Mapping[str, str]) -> None:
    """Save what a pair needs in a folder; what is there already stays.

    Args:
        pair: The pair.
        checkouts: Where the checkouts lie.
        build: The folder.
        pythons: Interpreters: ``tensorflow``, which also has tf_keras, and ``mxnet``.

    Raises:
        PrepareError: The code failed, or there is no interpreter for it.
    """
    if pair.prepare is None or any(build.iterdir()):
        return
    kind, code = pair.prepare["python"], pair.prepare["code"]
    if kind == "text":
        (build / pair.prepare["file"]).write_text(code, encoding="utf-8")
        return
    net = pair.original if pair.prepare.get("of") == "original" else pair.port
    where = _with_python_2_division(net.folder(checkouts), build, pair.prepare.get("python2_division", ()))
    head = f"build = {str(build)!r}\n" + (KERAS_2 if kind == "tf_keras" else "")
    head += FREEZE if pair.prepare.get("freeze") else ""
    interpreter = sys.executable if kind == "torch" else pythons.get(kind.replace("tf_keras", "tensorflow"))
    if interpreter is None:
        raise PrepareError(f"no interpreter with {kind}")
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": ""}
    done = subprocess.run(
        [interpreter, "-c", head + code],
        cwd=where,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if done.returncode:
        raise PrepareError((done.stderr.strip().splitlines() or ["no message"])[-1])


def _with_python_2_division(checkout: Path, build: Path, files: tuple[str, ...]) -> Path:
    """Return the folder to run in: a copy of the checkout with integer division, if it is in Python 2."""
    if not files:
        return checkout
    copy = build / "python2"
    shutil.copytree(checkout, copy)
    for file in files:
        text = (copy / file).read_text(encoding="utf-8")
        (copy / file).write_text(text.replace(")/", ")//"), encoding="utf-8")
    return copy
