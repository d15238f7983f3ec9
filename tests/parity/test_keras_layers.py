"""Every layer of Keras 2 and 3 with its options computes what Keras computes; one without a case fails here.

The models and the golden values are written by ``tests/oracles/keras_layers.py``.
"""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import netweave
from netweave.formats.keras import layers
from netweave.formats.keras.layers import READERS

FOLDER = Path(__file__).parent.parent / "golden" / "keras_layers"
AGES = ("keras2", "keras3")
GOLDEN = {age: np.load(FOLDER / f"{age}.npz") for age in AGES}
CASES = [(age, name) for age in AGES for name in GOLDEN[age].files if not name.startswith("in/")]


@cache
def graph(age: str, folder: Path) -> netweave.Graph:
    pytest.importorskip("h5py")
    if age == "keras3":
        return netweave.load(FOLDER / "keras3.keras")
    path = folder / "layers.h5"
    path.write_bytes(gzip.decompress((FOLDER / "keras2.h5.gz").read_bytes()))
    return netweave.load(path)


@cache
def outputs(age: str, folder: Path) -> dict[str, np.ndarray]:
    net = graph(age, folder)
    return netweave.run(net, {value.name: GOLDEN[age][f"in/{value.name}"] for value in net.inputs})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("layers")


@pytest.mark.slow
@pytest.mark.parametrize(("age", "case"), CASES)
def test_a_layer_makes_what_keras_makes(age, case, folder):
    name, number = case.rsplit("/", 1)
    found, expected = outputs(age, folder)[f"{name}__out{number}"], GOLDEN[age][case]
    assert found.shape == expected.shape
    rms = float(np.sqrt(np.mean(expected.astype(np.float64) ** 2))) or 1.0
    np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), atol=1e-5 * rms)


OLDER = {
    "Convolution1D": "Conv1D", "Convolution2D": "Conv2D", "Convolution3D": "Conv3D",
    "Deconvolution2D": "Conv2DTranspose", "SeparableConvolution2D": "SeparableConv2D",
    "SyncBatchNormalization": "BatchNormalization", "StochasticDepth": "ActivityRegularization",
    "RandomCrop": "RandomZoom",
    **{f"AvgPool{n}D": f"AveragePooling{n}D" for n in (1, 2, 3)},
    **{f"MaxPool{n}D": f"MaxPooling{n}D" for n in (1, 2, 3)},
    **{f"GlobalAvgPool{n}D": f"GlobalAveragePooling{n}D" for n in (1, 2, 3)},
    **{f"GlobalMaxPool{n}D": f"GlobalMaxPooling{n}D" for n in (1, 2, 3)},
    "ConvLSTM1D": "ConvLSTM2D", "ConvLSTM3D": "ConvLSTM2D",
}  # fmt: skip
"""Classes by their older names, or that do in other sizes what one with a case does."""

ELSEWHERE = {"LayerScale"}
"""Classes of Keras's applications; the tests marked ``oracle`` hold them."""

OF_SOURCE = {"Gelu"}
"""Operations that written source calls; ``tests/formats/keras/nets.py`` holds them."""

OF_CODE = {
    "Amax", "Amin", "AveragePool", "BroadcastTo", "Celu", "Conv", "ConvertToTensor", "Copy", "Cumsum",
    "DepthwiseConv", "DotProductAttention", "Einsum", "Elu", "FloorDivide", "HardSigmoid", "HardSilu",
    "HardTanh", "LayerNorm", "LeakyRelu", "MaxPool", "Moveaxis", "Norm", "Outer", "RMSNorm", "Relu", "Relu6",
    "Repeat", "Selu", "Silu", "Softsign", "Std", "StopGradient", "Swapaxes", "TanhShrink",
    "TopK", "Tril", "Triu", "Unstack", "Var",
}  # fmt: skip
"""Operations that the code of layers calls; ``tests/formats/keras/test_own_code.py`` holds them."""

OF_LOSSES = {
    "Argmax", "Argmin", "BinaryCrossentropy", "CategoricalCrossentropy", "Expm1", "Log1p", "Logsumexp",
    "NetweaveMask", "NetweaveWeight", "OneHot", "OnesLike", "SparseCategoricalCrossentropy", "Where",
    "ZerosLike",
}  # fmt: skip
"""Operations that losses and metrics are made of; ``tests/keras/test_curves.py`` holds them."""


def test_every_class_has_a_case(folder):
    assert layers  # imported for what it registers
    known = READERS
    written = {layer.type for age in AGES for layer in graph(age, folder).layers.values()}
    assert sorted(set(known) - written - set(OLDER) - ELSEWHERE - OF_CODE - OF_LOSSES - OF_SOURCE) == []
    assert not [old for old, now in OLDER.items() if known[old] != known[now]]
