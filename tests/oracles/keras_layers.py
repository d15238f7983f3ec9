"""Every layer of Keras with its options: the model of ``keras_cases.py`` saved, and what it computes.

    cd REPOSITORY; ORACLE/bin/python -m tests.oracles.keras_layers

Writes ``tests/golden/keras_layers``: ``keras3.keras`` and ``keras2.h5`` (with ``TF_USE_LEGACY_KERAS=1``),
packed, and ``keras3.npz`` and ``keras2.npz`` with inputs (``in/NAME``) and outputs (``CASE/NUMBER``).
ORACLE is an environment with ``tensorflow==2.21.0`` and ``tf-keras``.
"""

from __future__ import annotations

import gzip
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np

from tests.oracles import recipe
from tests.oracles.keras_cases import INPUTS, cases
from tests.oracles.keras_nets import LEGACY, keras, set_weights

GOLDEN = Path(__file__).parent.parent / "golden" / "keras_layers"
L = keras.layers
MASKED = 0.5
"""The number that stands for a step that is left out."""


def drawn(name: str) -> np.ndarray:
    """Return an input by its name: two examples, of which ``padded`` lacks steps at all its ends."""
    shape, dtype = INPUTS[name]
    kind = "integers 20" if dtype == "int32" else "normal"
    array = recipe.draw(name, (2, *shape), kind).astype(dtype)
    if name == "padded":
        array[0, [0, 3, 4]] = MASKED
        array[1, [6, 7, 8]] = MASKED
    if name == "words":
        array[0, :3] = 0
        array[1, 5] = 0
    return array


def model() -> tuple[Any, list[str]]:
    """Return the model with a branch for each case, and the names of its outputs."""
    inputs = {name: keras.Input(shape, dtype=dtype, name=name) for name, (shape, dtype) in INPUTS.items()}
    tensors = dict(inputs)
    tensors["masked"] = L.Masking(MASKED, name="masked")(inputs["padded"])
    tensors["embedded"] = L.Embedding(20, 4, mask_zero=True, name="embedded")(inputs["words"])
    outputs, names = [], []
    for name, (layer, wanted) in cases(keras, legacy=LEGACY).items():
        keys = wanted if isinstance(wanted, tuple) else (wanted,)
        given = [tensors[key] for key in keys if key != "causal"]
        more = {"use_causal_mask": True} if "causal" in keys else {}
        apart = name.startswith(("MultiHeadAttention", "ops_"))
        made = layer(*given, **more) if apart or len(given) == 1 else layer(given)
        for number, tensor in enumerate(made if isinstance(made, (list, tuple)) else [made]):
            outputs.append(L.Activation("linear", name=f"{name}__out{number}")(tensor))
            names.append(f"{name}/{number}")
    return keras.Model(list(inputs.values()), outputs, name="layers"), names


def small() -> Any:
    """Return a small model with masks and attention, to be damaged by tests."""
    words = keras.Input((7,), dtype="int32", name="words")
    h = L.Embedding(9, 4, mask_zero=True)(words)
    h = L.Bidirectional(L.LSTM(3, return_sequences=True), merge_mode="sum")(h)
    h = L.MultiHeadAttention(2, 2)(h, h, use_causal_mask=True)
    h = L.LayerNormalization(axis=[1, 2])(h)
    h = L.EinsumDense("abc,cd->abd", output_shape=(None, 4), bias_axes="d")(h)
    h = L.Dot(axes=2, normalize=True)([h, L.RNN([L.GRUCell(2), L.LSTMCell(4)], return_sequences=True)(h)])
    return keras.Model(words, L.GlobalMaxPooling1D()(h), name="masked")


def pack(path: Path, goal: Path) -> None:
    """Write a file of Keras smaller: an archive with its members compressed, or HDF5 as ``.gz``."""
    if goal.suffix == ".gz":
        goal.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        return
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(goal, "w", zipfile.ZIP_DEFLATED) as made:
        for item in source.infolist():
            made.writestr(zipfile.ZipInfo(item.filename), source.read(item), zipfile.ZIP_DEFLATED)


def main() -> None:
    """Write the files of the Keras that is set."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    built, names = model()
    set_weights(built)
    arrays = {name: drawn(name) for name in INPUTS}
    made = built(list(arrays.values()), training=False)
    age = "keras2" if LEGACY else "keras3"
    if not LEGACY:
        (GOLDEN / "masked.json").write_text(small().to_json())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("layers.h5" if LEGACY else "layers.keras")
        built.save(path)
        pack(path, GOLDEN / (f"{age}.h5.gz" if LEGACY else f"{age}.keras"))
    values = {name: np.asarray(value) for name, value in zip(names, made, strict=True)}
    np.savez_compressed(
        GOLDEN / f"{age}.npz", **{f"in/{name}": array for name, array in arrays.items()}, **values
    )


if __name__ == "__main__":
    main()
