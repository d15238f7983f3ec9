"""Forked children against those that are started: what code sees of its process is the same."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import netweave
from netweave.errors import CodeError
from netweave.files import sandbox
from tests.warm_children import FORKS

pytest.importorskip("torch")
pytest.importorskip("onnxscript")

pytestmark = pytest.mark.slow

SEEN = """
import os, resource, sys
import torch

limits = [resource.getrlimit(which) for which in (resource.RLIMIT_DATA, resource.RLIMIT_FSIZE)]
is_home = os.environ.get("HOME", "") == os.getcwd()
given = {"HOME", "LANG", "PATH", "PYTHONPATH", "TMPDIR", "USER", "SECRET"}
names = sorted(given & os.environ.keys())
numbers = [torch.get_num_threads(), len(sys.argv)]
raise RuntimeError([limits, is_home, names, numbers, sys.path[0], sys.stdin.read()])
"""

HIDDEN = """
import torch

def net():
    return open({path!r}).read()
"""


def errors(path: Path, monkeypatch: pytest.MonkeyPatch, **options) -> list[str]:
    """Return what is said of code by a forked child and by one that is started."""
    said = []
    for forks in (True, False):
        monkeypatch.setattr(FORKS, "are_on", forks)
        with pytest.raises(CodeError) as error:
            netweave.load(path, **options)
        said.append(str(error.value))
    return said


@pytest.mark.skipif(find_spec("keras") is None, reason="Keras is not installed")
def test_code_of_keras_sees_the_same_process(tmp_path, monkeypatch):
    asks = SEEN.replace("import torch", "import keras").replace(
        "torch.get_num_threads()", "keras.backend.backend()"
    )
    (tmp_path / "net.py").write_text(asks)
    forked, started = errors(tmp_path / "net.py", monkeypatch, trust=True)
    assert "its code fails: RuntimeError: [[(" in forked
    assert "'torch'" in forked
    assert forked == started


@pytest.mark.parametrize("trust", [False, True])
def test_code_sees_the_same_process(trust, tmp_path, monkeypatch):
    if not trust and not sandbox.has_guard():
        pytest.skip("there is no bubblewrap here")
    (tmp_path / "net.py").write_text(SEEN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("SECRET", "of the user")
    forked, started = errors(tmp_path / "net.py", monkeypatch, trust=trust)
    assert "its code fails: RuntimeError: [[(" in forked
    assert ("'SECRET'" in forked) == trust
    assert forked == started


def test_files_of_others_are_not_there(tmp_path, monkeypatch):
    if not sandbox.has_guard():
        pytest.skip("there is no bubblewrap here")
    (tmp_path / "other.txt").write_text("")
    (tmp_path / "net.py").write_text(HIDDEN.format(path=str(tmp_path / "other.txt")))
    forked, started = errors(f"{tmp_path}/net.py:net", monkeypatch)
    assert "FileNotFoundError" in forked
    assert forked == started


def test_what_is_to_be_done_at_the_end_is_done(tmp_path):
    end = f"import atexit, pathlib, torch\n\natexit.register(pathlib.Path({str(tmp_path / 'end')!r}).touch)\n"
    (tmp_path / "net.py").write_text(f"import torch\n{end}\ndef net():\n    return torch.nn.Linear(2, 2)\n")
    netweave.load(f"{tmp_path}/net.py:net", trust=True, input_shapes={"input": (1, 2)})
    assert (tmp_path / "end").exists()


def test_each_draws_other_first_values(tmp_path):
    (tmp_path / "net.py").write_text("import torch\n\ndef net():\n    return torch.nn.Linear(2, 2)\n")
    drawn = []
    for _ in range(2):
        net = netweave.load(f"{tmp_path}/net.py:net", trust=True, input_shapes={"input": (1, 2)})
        drawn += netweave.run(net, {"input": np.ones((1, 2), np.float32)}).values()
    assert not np.array_equal(*drawn)
