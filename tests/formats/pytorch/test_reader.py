"""Reading model files and modules, and every way in which a model file can fail."""

from __future__ import annotations

import re
import textwrap
import warnings
from typing import TYPE_CHECKING

import pytest

import netweave
from netweave.errors import CodeError, NetweaveError, UnsupportedError, UsageError, WeightError
from netweave.files import sandbox
from netweave.formats.pytorch import reader
from netweave.formats.pytorch.file_types import Kind, kind_of
from netweave.installation import install_command

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
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)
    monkeypatch.setattr(reader, "find_spec", lambda name: object())
    with pytest.raises(CodeError, match=r"model.py: holds code, .* bubblewrap .*--trust"):
        netweave.load(model("net = nn.Linear(2, 2)"))


def test_without_pytorch_the_extra_is_named(model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "find_spec", lambda name: None)
    with pytest.raises(
        UnsupportedError,
        match=f"torch and onnxscript is not installed: {re.escape(install_command('torch'))}",
    ):
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
@pytest.mark.parametrize(
    ("code", "entry", "error", "message"),
    [
        ("", "", UsageError, r"model.py: has 0 classes or functions that construct a model .*\(none\)"),
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
            r"'build' takes width, .* give literals \(.*model.py:build\(width=...\)\).*--config.*"
            r"build\(width, depth=2\)",
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


def beside(folder: Path, head: str) -> Path:
    """Write a model that has its layers from a module in a folder beside it, and return its file."""
    (folder / "parts").mkdir()
    (folder / "secret.txt").write_text("not for the model")
    (folder / "parts" / "head.py").write_text(
        "import os\nimport torch\nfrom torch import nn\nimport gone_package\nfrom .sizes import WIDTH\n\n"
        "@gone_package.registered('x')\ndef unused():\n    pass\n\n\n" + textwrap.dedent(head)
    )
    (folder / "parts" / "sizes.py").write_text("WIDTH = 4\n")
    path = folder / "net.py"
    path.write_text("import torch\nfrom parts.head import Head\n\n\ndef make():\n    return Head()\n")
    return path


@pytest.mark.guarded
@pytest.mark.slow
def test_modules_beside_the_file_run_in_the_guard_and_layers_have_their_lines(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    if not sandbox.has_guard():
        pytest.skip("there is no guard here")
    path = beside(
        tmp_path,
        """\
        class Head(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(WIDTH, 2)
                here = os.path.dirname(os.path.dirname(__file__))
                assert not os.path.exists(here + '/secret.txt')

            def forward(self, x):
                return self.fc(x)
        """,
    )
    net = netweave.load(path, input_shapes={"x": (1, 4)})
    origin = net.layers["fc"].origin
    assert origin is not None
    assert (origin.file, origin.line) == (str(tmp_path / "parts" / "head.py"), 20)
    assert [tuple(value.shape)[1:] for value in net.outputs] == [(2,)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "gone_package.sub.made(2)",
            r"head\.py:15: calls gone_package\.sub\.made, and 'gone_package' is not",
        ),
        (
            "2 if gone_package.FAST else 3",
            r"head\.py:15: decides by gone_package\.FAST, and 'gone_package' is",
        ),
        ("1 / 0", r"parts.head\.py:15: its code fails: ZeroDivisionError"),
    ],
)
def test_what_is_not_installed_is_refused_where_the_net_needs_it(
    tmp_path: Path, line: str, message: str
) -> None:
    pytest.importorskip("torch")
    path = beside(
        tmp_path,
        f"""\
        class Head(nn.Module):
            def __init__(self):
                super().__init__()
                self.width = {line}
        """,
    )
    with pytest.raises(CodeError, match=message):
        netweave.load(path, trust=True, input_shapes={"x": (1, 4)})


@pytest.mark.slow
@pytest.mark.parametrize(("made", "run"), [("2 if cfg.wide else 3", "x"), ("2", "x if cfg.wide else -x")])
def test_a_module_that_is_to_be_copied_from_a_template_is_no_package_to_install(
    tmp_path: Path, made: str, run: str
) -> None:
    pytest.importorskip("torch")
    path = beside(
        tmp_path,
        f"""\
        from gone_config import cfg

        class Head(nn.Module):
            def __init__(self):
                super().__init__()
                self.width = {made}

            def forward(self, x):
                return {run}
        """,
    )
    (tmp_path / "gone_config.example.py").write_text("")
    with pytest.raises(
        CodeError, match=r"decides by .*gone_config\.py is not here: copy gone_config\.example\.py to"
    ):
        netweave.load(path, trust=True, input_shapes={"x": (1, 4)})


@pytest.mark.slow
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
def test_first_values_are_told_from_weights(model, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = model("class Net(nn.Linear):\n    def __init__(self): super().__init__(2, 3)")
    assert netweave.load(path, trust=True).initial
    torch.save({"weight": torch.zeros(3, 2), "bias": torch.zeros(3)}, tmp_path / "net.pt")
    assert not netweave.load(f"{path},{tmp_path / 'net.pt'}", trust=True).initial
