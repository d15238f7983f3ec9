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
    assert set(netweave.__all__) <= set(dir(netweave))
    with pytest.raises(AttributeError, match="module 'netweave' has no attribute 'nothing'"):
        _ = netweave.nothing


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
