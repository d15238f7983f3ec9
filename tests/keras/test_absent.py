"""Names of Keras that are not here fail by their name, with the way out."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

pytest.importorskip("torch")

from netweave import keras
from netweave.errors import UsageError
from netweave.keras import layers
from netweave.keras.objects import REMEDIES

MODULES = (
    *("activations", "callbacks", "config", "constraints", "initializers", "layers", "losses", "metrics"),
    *("models", "ops", "optimizers", "regularizers", "saving", "utils"),
)


@pytest.mark.parametrize("module", MODULES)
def test_a_missing_name_is_named_with_its_module(module):
    with pytest.raises(AttributeError, match=rf"no keras\.{module}\.Qqqq; dir\(keras\.{module}\) lists"):
        _ = importlib.import_module(f"netweave.keras.{module}").Qqqq


def test_a_similar_name_is_proposed():
    with pytest.raises(AttributeError, match=r"keras\.layers\.Conv2d; is it one of Conv2D"):
        _ = layers.Conv2d
    with pytest.raises(AttributeError, match=r"schedules\.CosineDecays; is it one of CosineDecay"):
        _ = keras.optimizers.schedules.CosineDecays


@pytest.mark.parametrize("path", REMEDIES)
def test_what_has_a_way_out_is_really_missing(path):
    *modules, name = path.split(".")
    module = importlib.import_module(".".join(["netweave", *modules]))
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)
    assert str(caught.value) == f"netweave.keras has no {path}; {REMEDIES[path]}"


@pytest.mark.parametrize("module", MODULES)
def test_dir_lists_names_that_are_there(module):
    found = importlib.import_module(f"netweave.keras.{module}")
    names = [name for name in dir(found) if not name.startswith("__")]
    assert all(hasattr(found, name) for name in names)
    examples = {"optimizers": "Adam", "initializers": "GlorotUniform", "activations": "relu", "layers": "GRU"}
    assert examples.get(module, names[0]) in names


def test_the_ways_out_of_clone_model_and_adapt_lead_out():
    x = np.random.default_rng(0).normal(3.0, 2.0, (40, 2)).astype(np.float32)
    with pytest.raises(UsageError, match=r"pass the statistics of the data: Normalization\(mean="):
        layers.Normalization().adapt(x)
    normalised = layers.Normalization(mean=x.mean(0), variance=x.var(0))
    model = keras.Sequential([keras.Input((2,)), normalised])
    np.testing.assert_allclose(model.predict(x), (x - x.mean(0)) / x.std(0), rtol=1e-4, atol=1e-5)
    again = keras.models.model_from_config(model.to_json())
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
