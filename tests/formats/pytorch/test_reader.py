"""Reading model files and modules, and every way in which a model file can fail."""

from __future__ import annotations

import textwrap
import warnings
from typing import TYPE_CHECKING

import pytest

import netweave
from netweave.errors import CodeError, NetweaveError, UnsupportedError, UsageError, WeightError
from netweave.files import guard
from netweave.formats.pytorch import reader
from netweave.formats.pytorch.kinds import Kind, kind_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def model(tmp_path: Path):
    def write(code: str, name: str = "model.py") -> Path:
        path = tmp_path / name
        path.write_text("import torch\nfrom torch import nn\n" + textwrap.dedent(code))
        return path

    return write


def test_no_guard_and_no_trust_is_one_clear_error(model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard.shutil, "which", lambda name: None)
    monkeypatch.setattr(reader, "find_spec", lambda name: object())
    with pytest.raises(CodeError, match=r"model.py: holds code, .* bubblewrap .*--trust"):
        netweave.load(model("net = nn.Linear(2, 2)"))


def test_without_pytorch_the_extra_is_named(model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match=r"torch and onnxscript is not installed: .*netweave\[torch\]"):
        netweave.load(model("net = nn.Linear(2, 2)"), trust=True)


def test_python_that_does_not_import_pytorch_is_another_format_s(tmp_path: Path) -> None:
    path = tmp_path / "plain.py"
    path.write_text("import numpy\n")
    with pytest.raises(NetweaveError, match="not a net that Netweave knows"):
        netweave.load(path)


def test_a_model_whose_parts_bring_pytorch_in_is_one(tmp_path: Path) -> None:
    path = tmp_path / "whole.py"
    path.write_text("from .parts import *\n\n\nclass Net(nn.Module):\n    pass\n")
    assert kind_of(path) is Kind.CODE
    path.write_text("from .parts import *\n\n\nclass Net(Module):\n    pass\n")
    assert kind_of(path) is None


TWO = """
class A(nn.Linear):
    def __init__(self): super().__init__(2, 2)
class B(nn.Linear):
    def __init__(self): super().__init__(3, 3)
"""


@pytest.mark.slow
@pytest.mark.multi
@pytest.mark.parametrize(
    ("code", "entry", "error", "message"),
    [
        ("", "", UsageError, r"model.py: has 0 classes or functions that make a model .*\(none\)"),
        (
            TWO,
            "",
            UsageError,
            r"has 2 classes or functions .*\(A, B\), expected one: name it \(.*model.py:A\)",
        ),
        (TWO, ":C", UsageError, r"has no class or function 'C'; has: A, B"),
        (
            "def build(width, depth=2):\n    pass\n",
            ":build",
            UsageError,
            r"'build' takes width, expected .* without arguments: .* name it \(.*model.py:make\)",
        ),
        ("def make(): return 3", "", UsageError, "'make' makes a int, expected an nn.Module"),
        ("def make():\n    return 1 / 0", "", CodeError, r"model.py:4: its code fails: ZeroDivisionError"),
        ("def make(:", "", CodeError, r"model.py:3: its code fails: SyntaxError"),
        ("import sys; sys.exit(3)", "", CodeError, r"model.py:3: its code fails: SystemExit: 3"),
        ("import os; os._exit(3)", "", CodeError, r"model.py: the process that read it ended with status 3"),
    ],
)
def test_what_is_wrong_with_a_model_file(
    model, code: str, entry: str, error: type[Exception], message: str
) -> None:
    pytest.importorskip("torch")
    with pytest.raises(error, match=message):
        netweave.load(f"{model(code)}{entry}", trust=True)


@pytest.mark.slow
@pytest.mark.multi
def test_weights_that_do_not_fit_are_named(model, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = model("class Net(nn.Linear):\n    def __init__(self): super().__init__(2, 3)")
    torch.save({"weight": torch.zeros(2, 2), "other": torch.zeros(1)}, tmp_path / "net.pt")
    with pytest.raises(
        WeightError,
        match=r"net.pt: does not fit the model: missing: bias; not in the model: other; "
        r"sizes: weight has \(2, 2\), expected \(3, 2\)",
    ):
        netweave.load(f"{path},{tmp_path / 'net.pt'}", trust=True)


@pytest.mark.slow
@pytest.mark.multi
def test_programs_and_scripts_are_the_module_they_were_made_of(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from tests.formats.pytorch.nets.zoo import Mobile

    module = Mobile().eval()
    x = torch.randn(2, 3, 32, 32)
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "net.pt2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old, and still what many files are
        torch.jit.trace(module, x).save(tmp_path / "net.pt")
    expected = netweave.load(module, examples=[x])
    program = netweave.load(tmp_path / "net.pt2", trust=True)
    script = netweave.load(tmp_path / "net.pt", trust=True, input_shapes={"x": (2, 3, 32, 32)})
    for graph in (program, script):
        comparison = netweave.compare(expected, graph)
        assert comparison.exit_status == 0
        assert not comparison.findings
        assert "BatchNormalization" in {node.op_type for node in graph.nodes}
        assert "depth.0" in graph.layers
    assert program.layers["stem.1"].origin == expected.layers["stem.1"].origin


@pytest.mark.slow
@pytest.mark.multi
def test_first_values_are_told_from_weights(model, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = model("class Net(nn.Linear):\n    def __init__(self): super().__init__(2, 3)")
    assert netweave.load(path, trust=True).initial
    torch.save({"weight": torch.zeros(3, 2), "bias": torch.zeros(3)}, tmp_path / "net.pt")
    assert not netweave.load(f"{path},{tmp_path / 'net.pt'}", trust=True).initial
