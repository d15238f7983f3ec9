"""What optimizers keep, in ``.keras`` files: Keras goes on from ours, and we from its."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("h5py")

from netweave import keras
from tests.oracles import keras_optimizer_files as cases

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sgd_momentum", "rmsprop_all", "amsgrad", "nadam", "schedule"])
def test_training_goes_on_bit_for_bit_from_a_file(tmp_path, name):
    whole = cases.train(keras, tmp_path, name)
    for one, other in zip(whole, cases.resume(keras, tmp_path, name), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_fit_goes_on_from_a_file(tmp_path):
    x = np.random.default_rng(0).normal(size=(16, 5)).astype(np.float32)
    y = np.arange(16) % 3

    def fitted(model, begin, end):
        model.fit(x, y, batch_size=4, epochs=end, initial_epoch=begin, shuffle=False, verbose=0)
        return model

    first = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3, "softmax")])
    first.compile("adam", loss="sparse_categorical_crossentropy")
    fitted(first, 0, 1).save(tmp_path / "first.keras")
    whole = fitted(first, 1, 2)
    second = keras.models.load_model(tmp_path / "first.keras")
    second.save(tmp_path / "again.keras")  # what was not used yet is in the next file, too
    for path in ("first.keras", "again.keras"):
        rest = fitted(keras.models.load_model(tmp_path / path), 1, 2)
        for one, other in zip(whole.get_weights(), rest.get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)


def saved(folder, optimizer, units=3):
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(units, "softmax")])
    model.compile(optimizer, loss="sparse_categorical_crossentropy")
    model.train_on_batch(np.ones((2, 5), np.float32), np.array([0, 1]))
    model.save(folder / "net.keras")
    return model


def variables(path):
    from netweave.files.source import Source
    from netweave.formats.keras.opening import open_model

    return open_model(Source(path)).weights.numbered("optimizer/vars")


def test_the_variables_have_the_order_of_keras(tmp_path):
    """Count, rate, then momentum and velocity of the kernel, and of the bias; g is the first gradient."""
    saved(tmp_path, keras.optimizers.Adam(0.25))
    found = variables(tmp_path / "net.keras")
    assert [one.shape for one in found] == [(), (), (5, 3), (5, 3), (3,), (3,)]
    assert (found[0], found[1]) == (1, 0.25)
    gradient = found[2] / 0.1
    np.testing.assert_allclose(found[3], 0.001 * gradient**2, rtol=1e-4)
    assert np.abs(gradient).max() > 0


def test_without_the_optimizer_there_are_no_variables(tmp_path):
    model = saved(tmp_path, "adam")
    model.save(tmp_path / "bare.keras", include_optimizer=False)
    assert variables(tmp_path / "bare.keras") == []
    saved(tmp_path, "adafactor")
    assert variables(tmp_path / "net.keras") == []


def test_a_state_of_other_sizes_is_left_out_with_a_warning(tmp_path):
    model = saved(tmp_path, "adam")
    model.adopt_optimizer_variables(variables(tmp_path / "net.keras")[:4])
    with pytest.warns(UserWarning, match=r"of the optimizer Adam is left out.*its 4 arrays.*the 6 that"):
        model.train_on_batch(np.ones((2, 5), np.float32), np.array([0, 1]))


def test_a_state_of_before_the_first_update_is_nothing(tmp_path):
    model = saved(tmp_path, "adam")
    model.adopt_optimizer_variables([np.array(0), np.array(0.001)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.train_on_batch(np.ones((2, 5), np.float32), np.array([0, 1]))


def run(module, action, folder):
    command = [sys.executable, "-m", "tests.oracles.keras_optimizer_files", action, module, str(folder)]
    environment = {
        **os.environ,
        "KERAS_BACKEND": "torch",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    with np.load(folder / f"{module}-{action}.npz") as arrays:
        return dict(arrays)


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize(("writer", "reader"), [("keras", "netweave.keras"), ("netweave.keras", "keras")])
def test_both_go_on_from_each_others_files(tmp_path, writer, reader):
    """As if training had not been interrupted, to 1e-5 of the largest number."""
    if find_spec("keras") is None:
        pytest.skip("Keras is not installed")
    whole, rest = run(writer, "train", tmp_path), run(reader, "resume", tmp_path)
    assert set(whole) == set(rest)
    for key, array in whole.items():
        np.testing.assert_allclose(rest[key], array, rtol=1e-5, atol=3e-6, err_msg=key)
