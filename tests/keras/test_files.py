"""Files: written and read here, and by Keras itself."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("h5py")

import netweave
from netweave import keras
from tests.keras.examples import EXAMPLES, first_weights

ENDINGS = ("keras", "h5")


def made(name):
    example = EXAMPLES[name](keras)
    example.model.set_weights(first_weights(example.model))
    return example


def outputs(model, x):
    found = model.predict(x, verbose=0)
    return found if isinstance(found, list) else [found]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_model_comes_back_from_its_files(name, tmp_path):
    example = made(name)
    expected = outputs(example.model, example.x)
    for ending in ENDINGS:
        path = tmp_path / f"model.{ending}"
        example.model.save(path)
        loaded = keras.models.load_model(path)
        for one, other in zip(outputs(loaded, example.x), expected, strict=True):
            np.testing.assert_array_equal(one, other)
    assert keras.models.load_model(tmp_path / "model.keras").compiled
    example.model.save_weights(tmp_path / "model.weights.h5")
    fresh = EXAMPLES[name](keras).model
    fresh.load_weights(tmp_path / "model.weights.h5")
    for one, other in zip(fresh.get_weights(), example.model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_file_is_a_net_of_netweave(tmp_path):
    example = made("convnet")
    example.model.save(tmp_path / "net.keras")
    graph = netweave.load(tmp_path / "net.keras")
    found = next(iter(netweave.run(graph, {graph.inputs[0].name: example.x[:4]}).values()))
    np.testing.assert_allclose(found, example.model.predict(example.x[:4]), rtol=1e-4, atol=1e-5)
    assert netweave.compare(example.model.graph(), graph).verdict.name == "IDENTICAL"


KERAS = """
import sys, json, pathlib, numpy as np, keras
from tests.keras.examples import EXAMPLES, first_weights
folder = pathlib.Path(sys.argv[1])
found = {}
for name, make in EXAMPLES.items():
    example = make(keras)
    def sums(model):
        given = model.predict(example.x, verbose=0)
        return [float(np.abs(one).sum()) for one in (given if isinstance(given, list) else [given])]
    example.model.load_weights(folder / f"{name}.weights.h5")
    found[name] = [sums(keras.models.load_model(folder / f"{name}.{end}")) for end in ("keras", "h5")]
    found[name].append(sums(example.model))
    example.model.save(folder / f"keras_{name}.keras")
    example.model.save(folder / f"keras_{name}.h5")
    example.model.save_weights(folder / f"keras_{name}.weights.h5")
json.dump(found, open(folder / "found.json", "w"))
"""


@pytest.mark.oracle
@pytest.mark.slow
def test_keras_reads_our_files_and_we_read_its(tmp_path):
    """Needs NETWEAVE_TENSORFLOW: a Python with TensorFlow and Keras 3."""
    python = os.environ.get("NETWEAVE_TENSORFLOW")
    if not python:
        pytest.skip("NETWEAVE_TENSORFLOW is not set")
    expected, examples = {}, {name: made(name) for name in EXAMPLES}
    for name, example in examples.items():
        expected[name] = [float(np.abs(one).sum()) for one in outputs(example.model, example.x)]
        for ending in (*ENDINGS, "weights.h5"):
            save = example.model.save_weights if ending == "weights.h5" else example.model.save
            save(tmp_path / f"{name}.{ending}")
    subprocess.run([python, "-c", KERAS, str(tmp_path)], check=True, cwd=Path(__file__).parents[2])
    found = json.loads((tmp_path / "found.json").read_text())
    for name, example in examples.items():
        for row in found[name]:
            np.testing.assert_allclose(row, expected[name], rtol=1e-5, err_msg=name)
        for ending in ENDINGS:
            loaded = keras.models.load_model(tmp_path / f"keras_{name}.{ending}")
            sums = [float(np.abs(one).sum()) for one in outputs(loaded, example.x)]
            np.testing.assert_allclose(sums, expected[name], rtol=1e-5, err_msg=f"{name}.{ending}")
        fresh = EXAMPLES[name](keras).model
        fresh.load_weights(tmp_path / f"keras_{name}.weights.h5")
        for one, other in zip(fresh.get_weights(), example.model.get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)
