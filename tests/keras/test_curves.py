"""Keras 3's own numbers: the same first weights, the same batches, the same curves over 50 steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from netweave import keras
from netweave.errors import UsageError
from netweave.keras.layers.signatures import SIGNATURES
from tests.keras import cases
from tests.keras.cases import LAYERS, layer_outputs
from tests.keras.examples import EXAMPLES, OWN_CLASSES, curve

EXPECTED = json.loads((Path(__file__).parents[1] / "golden" / "keras_habits.json").read_text())

RTOL = 1e-4


@pytest.mark.parametrize("name", EXAMPLES | OWN_CLASSES)
def test_an_example_learns_as_in_keras(name):
    """Loss and metrics of each of 50 steps, and the evaluation after them, to 1e-4."""
    found = curve((EXAMPLES | OWN_CLASSES)[name](keras))
    np.testing.assert_allclose(found, EXPECTED["examples"][name], rtol=RTOL, atol=1e-6)


@cache
def numbers() -> dict[str, list[float]]:
    return cases.all_curves(keras)


@pytest.mark.parametrize("name", EXPECTED["cases"])
def test_a_part_does_as_in_keras(name):
    """Optimizers, schedules, penalties, constraints and losses: 50 steps; metrics: four batches; to 1e-4."""
    np.testing.assert_allclose(numbers()[name], EXPECTED["cases"][name], rtol=RTOL, atol=2e-6)


def test_every_case_has_a_number_of_keras():
    assert set(numbers()) == set(EXPECTED["cases"])


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_makes_what_it_makes_in_keras(name):
    """The sizes of the arrays in the order of ``get_weights``, and the outputs, to 1e-4."""
    shapes, expected = EXPECTED["layers"][name]
    found_shapes, found = layer_outputs(keras, *LAYERS[name])
    assert found_shapes == shapes
    np.testing.assert_allclose(found, expected, rtol=RTOL, atol=1e-5)


@pytest.mark.oracle
@pytest.mark.slow
def test_the_golden_numbers_are_those_of_keras():
    """Keras itself, in a process of its own: ``tests.oracles.keras_habits`` gives what the file holds."""
    if find_spec("keras") is None:
        pytest.skip("Keras is not installed")
    program = (
        "import json, sys; import keras; from tests.oracles.keras_habits import measured; "
        "json.dump(measured(keras), sys.stdout)"
    )
    environment = {**os.environ, "KERAS_BACKEND": "torch"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )
    live = json.loads(done.stdout.splitlines()[-1])
    for kind, rows in EXPECTED.items():
        for name, row in rows.items():
            found = live[kind][name]
            if kind == "layers":
                assert found[0] == row[0], name
                found, row = found[1], row[1]
            np.testing.assert_allclose(found, row, rtol=1e-4, atol=1e-5, err_msg=name)


RATES = """
import json
import numpy as np


class Own(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        logs["own"] = 2.0 * logs["learning_rate"]


x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(8, 3)
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), loss="mse")
halve = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2 if epoch else rate)
plateau = keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=100.0)
histories = []
for callbacks in [halve, Own()], [plateau, Own()]:
    history = model.fit(x, x[:, :1], epochs=3, callbacks=callbacks, verbose=0).history
    histories.append({name: history[name] for name in history if name != "loss"})
"""


@pytest.mark.oracle
@pytest.mark.slow
def test_callbacks_add_to_the_history_what_they_add_in_keras():
    """The rates of a scheduler and of a plateau, and a number of the user's own callback."""
    if find_spec("keras") is None:
        pytest.skip("Keras is not installed")
    program = f"import keras\n{RATES}\nprint(json.dumps(histories))"
    environment = {**os.environ, "KERAS_BACKEND": "torch"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )
    names = {"keras": keras}
    exec(RATES, names)
    found, expected = names["histories"], json.loads(done.stdout.splitlines()[-1])
    assert [set(one) for one in found] == [set(one) for one in expected]
    for ours, theirs in zip(found, expected, strict=True):
        for name, values in theirs.items():
            np.testing.assert_allclose(ours[name], values, rtol=1e-6, err_msg=name)


@pytest.mark.oracle
@pytest.mark.slow
def test_the_arguments_of_layers_are_those_of_keras():
    """Names, order and defaults of all arguments in ``SIGNATURES``."""
    if find_spec("keras") is None:
        pytest.skip("Keras is not installed")
    program = (
        "import inspect, json, sys, keras\n"
        "found = {}\n"
        f"for name in {sorted(SIGNATURES)!r}:\n"
        "    parameters = inspect.signature(getattr(keras.layers, name).__init__).parameters.values()\n"
        "    found[name] = [[p.name, repr(p.default)] for p in parameters if p.kind is not p.VAR_KEYWORD]\n"
        "json.dump(found, sys.stdout)"
    )
    environment = {**os.environ, "KERAS_BACKEND": "torch"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )
    live = json.loads(done.stdout.splitlines()[-1])
    for name in SIGNATURES:
        own = [
            [key, repr(one.default)] for key, one in keras.layers.LAYERS[name].signature.parameters.items()
        ]
        known = {key for key, _ in own}
        assert own == [row for row in live[name] if row[0] in known], name


def test_an_activation_as_a_penalty_needs_known_rows():
    with pytest.raises(UsageError, match="no known number of rows"):
        cases.fitted(keras, "sgd", "mse", activity_regularizer="orthogonal_regularizer")
