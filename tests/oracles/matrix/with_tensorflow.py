"""Graphs that TensorFlow 2.21 saves: the nets of tf-slim, scripts of our own, and models of Keras exported.

    ORACLE/bin/python -m tests.oracles.matrix.with_tensorflow FOLDER NET

What TensorFlow 1's API builds is saved as a frozen graph, ``net.pb``; a model of Keras as a SavedModel.
ORACLE has ``tensorflow==2.21.0`` and, for the nets of slim, ``tf-slim==1.1.0`` (``pip install --no-deps``).
"""

from __future__ import annotations

import importlib
import sys
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tests.oracles.matrix import tensorflow_nets, with_keras
from tests.oracles.matrix.making import Made, Sources, draw_inputs, drawn, main

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import numpy as np

v1 = tf.compat.v1
IMAGE = (1, 224, 224, 3)


def slim(
    folder: Path,
    sources: Sources,
    module: str,
    net: str,
    scope: str,
    shape: Sequence[int] = IMAGE,
    **settings: Any,
) -> Made:
    """A net of tf-slim up to its logits."""
    for part in (
        "",
        ".convolutional",
        ".core",
        ".normalization",
        ".pooling",
    ):  # where TensorFlow looks for them
        found = importlib.import_module(f"tf_keras.src.legacy_tf_layers{part}")
        sys.modules[f"tf_keras.legacy_tf_layers{part}"] = found
    import tf_slim
    from tf_slim import nets

    def build() -> Any:
        x = v1.placeholder(tf.float32, [None, *shape[1:]], name="input")
        found = getattr(nets, module)
        with tf_slim.arg_scope(getattr(found, scope)()):
            return getattr(found, net)(x, num_classes=1000, is_training=False, **settings)[0]

    return freeze(folder, build, {"input": (tuple(shape), "normal")}, f"tf_slim.nets.{module}.{net}")


def own(folder: Path, sources: Sources, build: Callable[[], Any], inputs: dict[str, Any]) -> Made:
    """A script of our own in the words of TensorFlow 1."""
    return freeze(folder, build, inputs, "a script of our own")


def application(folder: Path, sources: Sources, name: str) -> Made:
    """One of Keras's applications, exported as a SavedModel."""
    model = with_keras.application(name)
    model.export(folder / "saved_model", verbose=False)
    made = with_keras.made(model, f"keras.applications.{name}, exported as a SavedModel", ())
    made.files = ("saved_model",)
    return made


def freeze(folder: Path, build: Callable[[], Any], inputs: dict[str, Any], source: str) -> Made:
    """Build a graph, draw its variables, freeze it, and run it."""
    v1.disable_eager_execution()
    v1.disable_control_flow_v2()
    graph = tf.Graph()
    with graph.as_default(), v1.Session(graph=graph) as session:
        output = build()
        for variable in v1.global_variables():
            variable.load(_drawn(variable), session)
        given = draw_inputs(inputs)
        feeds = {f"{name}:0": array.astype(_dtype(graph, name)) for name, array in given.items()}
        made = session.run(output, feeds)
        convert = v1.graph_util.convert_variables_to_constants
        frozen = convert(session, graph.as_graph_def(), [output.op.name])
        tf.io.write_graph(frozen, str(folder), "net.pb", as_text=False)
    return Made(source, ("net.pb",), inputs, {output.op.name: made})


def _dtype(graph: Any, name: str) -> Any:
    return graph.get_tensor_by_name(f"{name}:0").dtype.as_numpy_dtype


def _drawn(variable: Any) -> np.ndarray:
    """Return a variable's values: its filters have their outputs last, depthwise ones none."""
    name, shape = variable.op.name, tuple(variable.shape)
    fan_in = prod(shape[:2] if "depthwise" in name else shape[:-1])
    if "transposed" in name:
        fan_in = shape[-1]
    made: np.ndarray = drawn(name, shape, fan_in=fan_in)
    return made


def _image(*sizes: int) -> dict[str, Any]:
    return {"images": ((1, *sizes), "normal")}


NETS = {
    "lenet": partial(own, build=tensorflow_nets.lenet, inputs=_image(28, 28, 1)),
    "alexnet": partial(slim, module="alexnet", net="alexnet_v2", scope="alexnet_v2_arg_scope"),
    "caffenet": partial(own, build=tensorflow_nets.caffenet, inputs=_image(227, 227, 3)),
    "nin": partial(own, build=tensorflow_nets.nin, inputs=_image(227, 227, 3)),
    "vgg16": partial(slim, module="vgg", net="vgg_16", scope="vgg_arg_scope"),
    "googlenet": partial(slim, module="inception", net="inception_v1", scope="inception_v1_arg_scope"),
    "inception-bn": partial(slim, module="inception", net="inception_v2", scope="inception_v2_arg_scope"),
    "inception-v3": partial(
        slim, module="inception", net="inception_v3", scope="inception_v3_arg_scope", shape=(1, 299, 299, 3)
    ),
    "resnet50": partial(slim, module="resnet_v1", net="resnet_v1_50", scope="resnet_arg_scope"),
    "resnet50-v2": partial(slim, module="resnet_v2", net="resnet_v2_50", scope="resnet_arg_scope"),
    "densenet121": partial(application, name="DenseNet121"),
    "squeezenet": partial(own, build=tensorflow_nets.squeezenet, inputs=_image(224, 224, 3)),
    "mobilenet": partial(application, name="MobileNet"),
    "mobilenet-v2": partial(application, name="MobileNetV2"),
    "fcn8s": partial(own, build=tensorflow_nets.fcn8s, inputs=_image(96, 128, 3)),
    "unet": partial(own, build=tensorflow_nets.unet, inputs=_image(96, 128, 3)),
    "lstm": partial(own, build=tensorflow_nets.language_model, inputs={"words": ((2, 7), "integers 200")}),
}

if __name__ == "__main__":
    main(f"TensorFlow {tf.__version__}", NETS)
