"""Models of Keras as TFLite: converted by TensorFlow 2.21, and run by its interpreter.

ORACLE/bin/python -m tests.oracles.matrix.with_tflite FOLDER NET
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tests.oracles.matrix import with_keras
from tests.oracles.matrix.making import Made, Sources, draw_inputs, main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def save(folder: Path, sources: Sources, build: Callable[[], Any], source: str) -> Made:
    """Build a model, convert it, and run what was written."""
    model = build()
    (tensor,) = model.inputs
    is_whole = "int" in str(tensor.dtype)
    content = _converter(model, batch=1 if is_whole else None).convert()
    (folder / "net.tflite").write_bytes(content)
    interpreter = tf.lite.Interpreter(model_content=content)
    runner = interpreter.get_signature_runner()
    (name,) = runner.get_input_details()
    shape = tuple(size or 1 for size in tensor.shape)
    inputs = {name: (shape, "integers 200" if is_whole else "normal")}
    x = draw_inputs(inputs)[name].astype(tensor.dtype)
    outputs = {key: np.asarray(array) for key, array in runner(**{name: x}).items()}
    return Made(f"{source}, by tf.lite.TFLiteConverter", ("net.tflite",), inputs, outputs)


def _converter(model: Any, *, batch: int | None) -> Any:
    """Return the converter of a model; it lowers recurrent layers only if the batch has a size."""
    if batch is None:
        return tf.lite.TFLiteConverter.from_keras_model(model)
    (tensor,) = model.inputs
    spec = tf.TensorSpec((batch, *tensor.shape[1:]), tensor.dtype, tensor.name)
    function = tf.function(lambda x: model(x, training=False), input_signature=[spec])
    return tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()], model)


NETS = {
    net: partial(save, build=maker.keywords["build"], source=maker.keywords["source"])
    for net, maker in with_keras.NETS.items()
}

if __name__ == "__main__":
    main(f"TensorFlow Lite {tf.__version__}", NETS)
