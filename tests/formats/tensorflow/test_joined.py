"""Operators that TensorFlow 2.21 runs on no CPU or writes no more, by the formulas of their kernels."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave import errors

VECTORS = {"gamma": 1.5, "beta": -0.25, "mean": 0.5, "variance": 0.75}


def written(folder, op: str, inputs: list[str], attributes: str) -> str:
    nodes = ['node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } '
             'attr { key: "shape" value { shape { dim { size: 1 } dim { size: 2 } dim { size: 2 } '
             'dim { size: 3 } } } } }']  # fmt: skip
    for name, value in VECTORS.items():
        nodes.append(
            f'node {{ name: "{name}" op: "Const" attr {{ key: "dtype" value {{ type: DT_FLOAT }} }} '
            f'attr {{ key: "value" value {{ tensor {{ dtype: DT_FLOAT tensor_shape {{ dim {{ size: 3 }} }} '
            f"float_val: {value} }} }} }} }}"
        )
    given = " ".join(f'input: "{name}"' for name in inputs)
    nodes.append(f'node {{ name: "y" op: "{op}" {given} {attributes} }}')
    path = folder / "net.pbtxt"
    path.write_text("\n".join(nodes))
    return str(path)


def made(path: str, x: np.ndarray) -> np.ndarray:
    (found,) = netweave.run(netweave.load(path), {"x": x}).values()
    return np.asarray(found)


X = np.linspace(-2, 3, 12, dtype=np.float32).reshape(1, 2, 2, 3)
NORMAL = (X - 0.5) / np.sqrt(0.75 + 0.01)


@pytest.mark.parametrize(("is_scaled", "scale"), [("true", 1.5), ("false", 1.0)])
def test_the_first_normalisation_of_tensorflow(is_scaled, scale, tmp_path):
    attributes = (
        'attr { key: "variance_epsilon" value { f: 0.01 } } '
        f'attr {{ key: "scale_after_normalization" value {{ b: {is_scaled} }} }}'
    )
    inputs = ["x", "mean", "variance", "beta", "gamma"]
    path = written(tmp_path, "BatchNormWithGlobalNormalization", inputs, attributes)
    np.testing.assert_allclose(made(path, X), NORMAL * scale - 0.25, atol=1e-5)


def test_a_normalisation_with_something_added_and_a_rectifier(tmp_path):
    attributes = (
        'attr { key: "epsilon" value { f: 0.01 } } attr { key: "is_training" value { b: false } } '
        'attr { key: "num_side_inputs" value { i: 1 } } attr { key: "activation_mode" value { s: "Relu" } }'
    )
    inputs = ["x", "gamma", "beta", "mean", "variance", "x"]
    path = written(tmp_path, "_FusedBatchNormEx", inputs, attributes)
    np.testing.assert_allclose(made(path, X), np.maximum(NORMAL * 1.5 - 0.25 + X, 0), atol=1e-5)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ('"Softmax"', r"'Softmax' in fused_ops is not supported"),
        ('"BiasAdd"', r"needs more inputs than the node has"),
    ],
)
def test_what_is_joined_and_unknown_is_refused(names, message, tmp_path):
    attributes = f'attr {{ key: "fused_ops" value {{ list {{ s: {names} }} }} }}'
    path = written(tmp_path, "_FusedMatMul", ["x", "gamma"], attributes)
    with pytest.raises(errors.SourceError, match=message):
        netweave.load(path)


@pytest.mark.parametrize(("op", "number"), [("ZerosLike", 0), ("OnesLike", 1)])
def test_what_is_like_a_tensor_takes_no_numbers_from_it(op, number, tmp_path):
    x = X.copy()
    x[0, 0, 0] = np.inf, -np.inf, np.nan
    np.testing.assert_array_equal(made(written(tmp_path, op, ["x"], ""), x), np.full_like(x, number))
