"""The first example of README: PyTorch says whether the port is the reference, and the comparison why not."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import netweave  # noqa: E402
from netweave.comparison import Verdict  # noqa: E402
from netweave.files.sandbox import has_guard  # noqa: E402

EXAMPLE = Path(__file__).parents[2] / "examples" / "llama"

pytestmark = pytest.mark.skipif(not has_guard(), reason="bubblewrap is not installed")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of the example with weights."""
    for file in EXAMPLE.glob("*.py"):
        shutil.copy(file, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names = ("reference", "port", "make_weights")
    try:
        importlib.import_module("make_weights").write(tmp_path)
        yield tmp_path
    finally:
        for name in names:
            sys.modules.pop(name, None)


def outputs(folder):
    tokens = torch.randint(128, (2, 16), generator=torch.Generator().manual_seed(1))
    made = []
    for module, name in (("reference", "Llama"), ("port", "Decoder")):
        net = getattr(importlib.import_module(module), name)()
        net.load_state_dict(torch.load(folder / f"{module}.pt", weights_only=True))
        made.append(net(tokens).detach())
    return made


def mend(folder):
    text = (folder / "port.py").read_text()
    assert text.count("base: float = 10_000.0") == 1
    (folder / "port.py").write_text(text.replace("base: float = 10_000.0", "base: float = 500_000.0"))


@pytest.mark.parametrize("is_mended", [False, True])
def test_one_number_is_all_that_is_wrong(folder, is_mended):
    if is_mended:
        mend(folder)
    a, b = outputs(folder)
    assert torch.allclose(a, b, atol=1e-3) == is_mended


def test_the_cause_and_the_fix_are_named_in_words_of_decoders(folder):
    nets = [
        f"{folder}/reference.py:Llama,{folder}/reference.pt",
        f"{folder}/port.py:Decoder,{folder}/port.pt",
    ]
    found = netweave.compare(*nets)
    assert found.verdict is Verdict.DIFFERENT
    first = found.findings[0]
    assert first.cause == "the base (theta) of the rotary embedding is 500,000 in A and 10,000 in B"
    assert first.fix == "use theta 500,000"
    line = int(first.place_b.rpartition(":")[2])
    assert "self.base" in (folder / "port.py").read_text().splitlines()[line - 1]
    mend(folder)
    assert netweave.compare(*nets).verdict is Verdict.IDENTICAL
