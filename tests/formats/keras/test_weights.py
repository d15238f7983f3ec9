"""Weights that are named for code of Keras: they are loaded into its model, or refused."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

import netweave
from netweave.comparison import Verdict
from netweave.errors import UsageError, WeightError

pytestmark = [
    pytest.mark.skipif(find_spec("keras") is None or find_spec("torch") is None, reason="needs Keras"),
    pytest.mark.slow,
]

CODE = """
import keras

def build(width=4):
    x = keras.Input((8, 8, 3), name="x")
    y = keras.layers.Conv2D(width, 3, activation="relu", name="c")(x)
    return keras.Model(x, keras.layers.Dense(5, name="d")(keras.layers.Flatten()(y)))
"""

SAVING = """
import keras, net
keras.utils.set_random_seed(3)
model = net.build()
model.save("trained.keras")
for name in ("trained", "net"):
    model.save_weights(f"{name}.weights.h5")
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with a model's code, its file and its weights, as Keras saves them."""
    folder = tmp_path_factory.mktemp("keras")
    (folder / "net.py").write_text(CODE)
    (folder / "save.py").write_text(SAVING)
    environment = os.environ | {"KERAS_BACKEND": "torch", "KERAS_HOME": str(folder)}
    subprocess.run([sys.executable, "save.py"], cwd=folder, env=environment, check=True)
    return folder


@pytest.mark.parametrize("swapped", [False, True], ids=["a-b", "b-a"])
def test_named_weights_are_loaded(saved, swapped):
    nets = [saved / "trained.keras", f"{saved / 'net.py'}:build,{saved / 'trained.weights.h5'}"]
    found = netweave.compare(*(nets[::-1] if swapped else nets), trust=True)
    assert found.verdict is Verdict.IDENTICAL
    code = found.a if swapped else found.b
    assert code.files == (str(saved / "net.py"), str(saved / "trained.weights.h5"))


def test_a_file_beside_that_nobody_named_is_not_listed(saved):
    assert netweave.load(f"{saved / 'net.py'}:build", trust=True).files == (str(saved / "net.py"),)


def test_what_holds_no_weights_is_refused(saved, tmp_path):
    junk = tmp_path / "junk.weights.h5"
    junk.write_text("no weights")
    with pytest.raises(WeightError, match=r"junk\.weights\.h5: Keras cannot load it .*; name the file"):
        netweave.load(f"{saved / 'net.py'}:build", junk, trust=True)


def test_weights_of_another_model_are_refused(saved):
    with pytest.raises(WeightError, match=r"trained\.weights\.h5: Keras cannot load it .* shape"):
        netweave.load(f"{saved / 'net.py'}:build(6)", saved / "trained.weights.h5", trust=True)


def test_weights_of_another_kind_are_refused_before_the_code_runs(saved, tmp_path):
    other = tmp_path / "net.npz"
    other.write_bytes(b"PK")
    with pytest.raises(UsageError, match=r"net\.npz: .* Keras loads files that end in \.weights\.h5, \.h5"):
        netweave.load(f"{saved / 'net.py'}:build", other, trust=True)
