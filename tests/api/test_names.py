"""What ``import netweave`` offers, whatever was imported before."""

from __future__ import annotations

import subprocess
import sys

import pytest

import netweave
from netweave import api, keras


def test_every_name_is_that_of_the_api():
    of_keras = {"EarlyStopping", "Sequential"}
    assert {name: getattr(netweave, name) for name in netweave.__all__} == {
        name: getattr(keras if name in of_keras else api, name) for name in netweave.__all__
    }


@pytest.mark.parametrize("package", [netweave, api])
def test_the_stub_names_what_is_there(package):
    assert all(getattr(package, name) is not None for name in package.__all__)
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'nothing'"):
        _ = package.nothing


def test_comparing_loads_no_training_and_no_editor():
    script = "import netweave, sys; netweave.compare; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    modules = done.stdout.split()
    assert "netweave.api.comparing" in modules
    unneeded = ("netweave.training.data", "netweave.comparison.fixes", "netweave.formats.mxnet", "torch")
    assert [name for name in modules if name.startswith(unneeded)] == []


@pytest.mark.parametrize(
    "before",
    [
        "import netweave; netweave.load",
        "from netweave import compare",
        "import netweave.comparison.result.report",
    ],
)
def test_compare_is_the_function_whatever_was_imported(before):
    script = f"{before}\nimport netweave\nprint(netweave.compare.__module__)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("netweave.api.comparing\n", "")
