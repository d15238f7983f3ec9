"""The net as Keras writes it: an archive of configuration and arrays, or the configuration alone."""

from __future__ import annotations

import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

import h5py

import netweave
from tests.comparison.planted.plan import CLASSES, IN, MIDDLE, POOL, SIZE, Plan, arrays

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from netweave.graph import Graph

POOLINGS = {"max": "MaxPooling2D", "average": "AveragePooling2D"}


def load(plan: Plan, folder: Path, *, weights: bool) -> Graph:
    """Write the net and read it."""
    if not weights:
        (folder / "net.json").write_text(configuration(plan))
        return netweave.load(folder / "net.json")
    with zipfile.ZipFile(folder / "net.keras", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": "3.12.0"}))
        archive.writestr("config.json", configuration(plan))
        archive.writestr("model.weights.h5", _hdf5(plan))
    return netweave.load(folder / "net.keras")


def configuration(plan: Plan) -> str:
    """Return the configuration."""
    if plan.lrn is not None:
        raise ValueError("Keras has no such layer")
    layers: list[dict[str, Any]] = []

    def add(kind: str, name: str, **settings: object) -> None:
        config = {"name": name, "dtype": "float32", **settings}
        layers.append({"module": "keras.layers", "class_name": kind, "config": config})

    conv = {"filters": MIDDLE, "kernel_size": [3, 3], "activation": "linear"}
    add("InputLayer", "data", batch_shape=[None, SIZE, SIZE, IN])
    add("Conv2D", "conv1", **conv, padding="same", use_bias=False)
    add("BatchNormalization", "bn1", axis=-1, epsilon=plan.eps, center=True, scale=not plan.fixed_gamma)
    if plan.slope:
        add("LeakyReLU", "act1", negative_slope=plan.slope)
    else:
        add("ReLU", "act1")
    if plan.scale != 1:
        add("Rescaling", "scale1", scale=plan.scale, offset=0.0)
    add("Conv2D", "conv2", **conv, padding="same" if plan.pad else "valid", use_bias=True)
    add("Activation", "act2", activation=plan.activation)
    add(POOLINGS[plan.pooling], "pool", pool_size=[POOL, POOL], strides=[1, 1], padding="valid")
    add("GlobalAveragePooling2D", "gap")
    add("Dense", "fc", units=CLASSES, activation="linear", use_bias=True)
    add("Activation", "prob", activation=plan.end)
    model = {"class_name": "Sequential", "config": {"name": "net", "layers": layers}}
    return json.dumps({"module": "keras", **model})


def _hdf5(plan: Plan) -> bytes:
    """Return the arrays, channels last, in the order of each layer."""
    found = arrays(plan)
    stored: dict[str, list[np.ndarray]] = {
        "conv2d": [found["conv1.weight"].transpose(2, 3, 1, 0)],
        "batch_normalization": [
            found[f"bn1.{role}"] for role in ("gamma", "beta", "mean", "variance")[plan.fixed_gamma :]
        ],
        "conv2d_1": [found["conv2.weight"].transpose(2, 3, 1, 0), found["conv2.bias"]],
        "dense": [found["fc.weight"].T, found["fc.bias"]],
    }
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        for layer, values in stored.items():
            for number, array in enumerate(values):
                file[f"layers/{layer}/vars/{number}"] = array
    return content.getvalue()
