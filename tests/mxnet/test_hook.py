"""Scripts and notebooks for MXNet of which no line is changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

import netweave
from netweave.errors import ReadError
from netweave.mxnet import hook

SCRIPT = """
import sys
import mxnet as mx
import mxnet.ndarray as arrays
import mxnet.symbol as S, mxnet.metric
from mxnet import nd, autograd, gluon
from mxnet.gluon import nn
from mxnet.gluon.data.vision.transforms import ToTensor
from mxnet.symbol.contrib import MultiBoxPrior
import netweave.mxnet

assert mx is netweave.mxnet and nd is arrays is mx.nd and mx.__spec__.name == "netweave.mxnet"
net = nn.Dense(1, in_units=2)
net.initialize(mx.init.One())
with autograd.record():
    loss = net(nd.ones((3, 2))).sum()
loss.backward()
print(sys.argv[1:], __name__, net.weight.grad().asnumpy().tolist())
"""
PRINTED = "['--lr', '1'] __main__ [[3.0, 3.0]]"


def output(*arguments, folder):
    command = [sys.executable, "-m", "netweave.mxnet", *arguments]
    environment = os.environ | {"PYTHONPATH": str(Path(netweave.__file__).parents[1])}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_script_a_module_and_a_notebook_run_unchanged(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    cells = [
        {"cell_type": "markdown", "source": ["import nothing"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "!ls\n", *SCRIPT.splitlines(keepends=True)]},
        {"cell_type": "code", "source": "if True:\n    %time\nprint(loss.asscalar())"},
    ]
    (tmp_path / "train.ipynb").write_text(json.dumps({"cells": cells}))
    for arguments in (["train.py"], ["-m", "train"]):
        done = output(*arguments, "--lr", "1", folder=tmp_path)
        assert (done.stdout.strip(), done.returncode) == (PRINTED, 0), done.stderr
    done = output("train.ipynb", "--lr", "1", folder=tmp_path)
    assert done.stdout.split("\n") == [PRINTED, "6.0", ""], done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import mxnet.rtc", "ModuleNotFoundError: netweave.mxnet has no mx.rtc; write the operator with"),
        ("from mxnet.gluon import nothing", "ImportError: cannot import name 'nothing'"),
        (
            "import sys, types\nsys.modules['mxnet'] = types.ModuleType('mxnet')\n"
            "import netweave.mxnet\nnetweave.mxnet.install()",
            "mxnet is imported already; call netweave.mxnet.install() before the first import of it",
        ),
    ],
)
def test_what_is_not_there_is_named(tmp_path, text, message):
    (tmp_path / "train.py").write_text(text)
    done = output("train.py", folder=tmp_path)
    assert message in done.stderr
    assert done.returncode == 1


def test_a_file_that_is_no_notebook(tmp_path):
    (tmp_path / "a.ipynb").write_text("[]")
    with pytest.raises(ReadError, match=r"a\.ipynb: is not a Jupyter notebook"):
        hook.run([str(tmp_path / "a.ipynb")])
    with pytest.raises(ReadError, match=r"b\.ipynb: cannot be read: No such file"):
        hook.run([str(tmp_path / "b.ipynb")])


@pytest.fixture(autouse=True)
def _restored(monkeypatch):
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
