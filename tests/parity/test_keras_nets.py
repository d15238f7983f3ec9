"""Models of Keras 2 and 3 in every form that they are saved in; what they compute.

The files and the golden values are written by ``tests/oracles/keras_nets.py``.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import netweave
from tests.oracles import golden, recipe

FOLDER = Path(__file__).parent.parent / "golden" / "keras"
RECORDS = {key: json.loads((FOLDER / f"{key}.json").read_text()) for key in ("nets", "keras2")}
FORMS = [
    *((name, suffix, "nets") for name in RECORDS["nets"] for suffix in ("keras", "h5")),
    *((name, "keras2.h5", "keras2") for name in RECORDS["keras2"]),
    ("unet", "json", "nets"),
    ("unet", "pb", "nets"),
    ("unet_saved_model", "", "nets"),
    ("words_saved_model", "", "nets"),
]

APPLICATIONS = (
    "VGG16",
    "ResNet50",
    "ResNet50V2",
    "InceptionV3",
    "DenseNet121",
    "MobileNet",
    "MobileNetV2",
    "MobileNetV3Small",
    "Xception",
    "EfficientNetB0",
    "NASNetMobile",
    "ConvNeXtTiny",
)


def check(path, record):
    graph = netweave.load(path)
    assert graph.loaded
    names = list(record["inputs"])
    inputs = {}
    for index, value in enumerate(graph.inputs):
        name = value.name if value.name in names else names[index]
        shape, kind = record["inputs"][name]
        inputs[value.name] = recipe.draw(name, tuple(shape), kind).astype(value.dtype.numpy())
    found = list(netweave.run(graph, inputs).values())
    assert len(found) == len(record["outputs"])
    for number, (array, tensor) in enumerate(zip(found, record["outputs"], strict=True)):
        assert golden.difference(array, tensor) < golden.TOLERANCE, number


@pytest.mark.parametrize(("name", "suffix", "records"), FORMS)
def test_outputs_are_those_of_keras(name, suffix, records):
    if suffix.endswith(("keras", "h5", "json")):  # the weights beside JSON are HDF5, too
        pytest.importorskip("h5py")
    record = RECORDS[records][name.removesuffix("_saved_model")]
    check(FOLDER / (f"{name}.{suffix}" if suffix else name), record)


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("name", APPLICATIONS)
def test_applications_compute_what_keras_computes(name, tmp_path):
    """NETWEAVE_TENSORFLOW names the Python of an environment with TensorFlow."""
    python = os.environ.get("NETWEAVE_TENSORFLOW")
    if not python:
        pytest.skip("NETWEAVE_TENSORFLOW names no Python with TensorFlow")
    script = [python, "-m", "tests.oracles.keras_nets", str(tmp_path), name]
    subprocess.run(script, check=True, capture_output=True, cwd=Path(__file__).parents[2], timeout=900)
    record = json.loads((tmp_path / f"{name}.json").read_text())
    for form in (f"{name}.keras", f"{name}.h5", f"{name}_saved_model", f"{name}.pb"):
        check(tmp_path / form, record)


def test_layers_are_keras_own_with_their_settings():
    pytest.importorskip("h5py")
    graph = netweave.load(FOLDER / "convolutions.keras")
    layer = next(layer for layer in graph.layers.values() if layer.type == "SeparableConv2D")
    assert layer.settings["depth_multiplier"] == 2
    assert layer.settings["padding"] == "same"
    assert len(layer.parameters) == 3
    weight = graph.parameters[layer.parameters[0]]
    assert weight.shape == (3, 3, 6, 2)


def test_transposes_stand_only_where_the_order_matters():
    pytest.importorskip("h5py")
    graph = netweave.load(FOLDER / "convolutions.keras")
    kinds = [node.op_type for node in graph.nodes]
    assert kinds.count("Transpose") == 1  # at the input; the features have no places left
    graph = netweave.load(FOLDER / "lenet.keras")
    kinds = [node.op_type for node in graph.nodes]
    assert kinds.count("Transpose") == 2  # at the input, and before the flatten
    assert kinds.index("Flatten") == len(kinds) - 1 - kinds[::-1].index("Transpose") + 1


def test_same_padding_stays_a_rule():
    pytest.importorskip("h5py")
    graph = netweave.load(FOLDER / "unet.keras")
    assert all(
        node.attributes["auto_pad"].as_string() == "SAME_UPPER"
        for node in graph.nodes
        if node.op_type == "Conv" and node.attributes["kernel_shape"].as_ints() == (3, 3)
    )


def test_a_model_without_weights_is_read_by_its_sizes(tmp_path):
    (tmp_path / "net.json").write_bytes((FOLDER / "unet.json").read_bytes())
    graph = netweave.load(tmp_path / "net.json")
    assert not graph.loaded
    (out,) = netweave.run(graph, {"image": np.zeros((1, 16, 16, 3), np.float32)}).values()
    assert out.shape == (1, 16, 16, 2)
