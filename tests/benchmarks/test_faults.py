"""The injector of planted faults: what it edits, that it knows nothing of Netweave, and the two halves."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from benchmarks.faults import halves
from benchmarks.faults.kept import Kept
from benchmarks.faults.score import Row, Score
from benchmarks.faults.torch_source import edited, lines_of

FOLDER = Path(halves.__file__).parent
RUNS_NETWEAVE = {"run.py", "score.py"}

SOURCE = '''"""A net."""

from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, kernel_size=3, padding=1)
        self.relu = nn.ReLU()

    def forward(self, data):
        x = self.conv(data)
        x = self.relu(x)
        return x
'''


def test_lines_are_read_and_edited_one_by_one():
    conv, relu, call, last = lines_of(SOURCE)
    assert (conv.target, conv.function, conv.arguments) == ("conv", "nn.Conv2d", ("3", "4"))
    assert (call.function, call.member, last.arguments) == ("conv", True, ("x",))
    made = edited(SOURCE, (conv, conv.having(stride="2").text()), (last, "x = x"))
    old, new = SOURCE.splitlines(), made.splitlines()
    assert [i for i, rows in enumerate(zip(old, new, strict=True)) if rows[0] != rows[1]] == [8, 13]
    assert new[8] == "        self.conv = nn.Conv2d(3, 4, kernel_size=3, padding=1, stride=2)"
    assert relu.text() == "self.relu = nn.ReLU()"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_what_plants_and_judges_imports_nothing_of_netweave(path):
    if path.name in RUNS_NETWEAVE:
        return
    tree = ast.parse(path.read_text())
    names = [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
    names += [str(n.module) for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    assert not [name for name in names if name.partition(".")[0] == "netweave"]


def test_the_unseen_half_is_what_the_seed_draws():
    for form, (pool, count) in halves.POOLS.items():
        assert set(halves.UNSEEN[form]) <= set(pool)
        assert len(halves.UNSEEN[form]) == count
    assert set(halves.UNSEEN["pytorch"]) <= {*halves.UNSEEN["caffe"], *halves.UNSEEN["mxnet"]}
    assert halves.half_of("caffe-lenet") == "seen"
    assert halves.half_of(f"caffe-{halves.UNSEEN['caffe'][0]}") == "unseen"


def test_every_fault_of_a_pytorch_net_changes_one_of_its_files():
    pytest.importorskip("torch")
    from benchmarks.faults.torch_faults import faults
    from benchmarks.faults.torch_nets import TorchNet

    rng = np.random.default_rng(0)
    arrays = {
        "conv.weight": rng.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "conv.bias": rng.standard_normal(4).astype(np.float32),
    }
    net = TorchNet(SOURCE, arrays, (3, 8, 8))
    original, found = net.net().files, list(faults(net, count=1))
    kinds = [fault.kind for fault in found]
    assert {"conv: padding", "relu: leaky", "layer left out", "bias left out", "one weight changed"} <= set(
        kinds
    )
    for fault in found:
        assert fault.net.files != original, fault.kind
        assert fault.layer in {"conv", "relu"}
        ast.parse(fault.net.files["model.py"])


LATER = '''"""Two layers whose order matters, groups, and maps that are joined."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, kernel_size=3, padding=1, groups=2, bias=False)
        self.relu = nn.ReLU()
        self.norm = nn.LocalResponseNorm(3, alpha=0.5)

    def forward(self, data):
        x = self.conv(data)
        y = self.relu(x)
        y = self.norm(y)
        x = torch.cat([x, y], dim=1)
        return x
'''


def test_faults_of_order_groups_and_joins_compute_something_else(tmp_path):
    torch = pytest.importorskip("torch")
    from benchmarks.faults.torch_faults import faults
    from benchmarks.faults.torch_nets import TorchNet, module

    weights = np.random.default_rng(0).standard_normal((4, 2, 3, 3)).astype(np.float32)
    net = TorchNet(LATER, {"conv.weight": weights}, (4, 8, 8))
    found = {fault.kind: fault for fault in faults(net, count=1)}
    x = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(0))

    def run(made):
        made.write(tmp_path)
        with torch.no_grad():
            return module(tmp_path)(x)

    right = run(net.net())
    for kind in ("conv: groups", "lrn: size", "layer order", "concat axis"):
        wrong = run(found[kind].net)
        assert wrong.shape != right.shape or not torch.allclose(wrong, right, atol=1e-4), kind
    assert (found["layer order"].layer, found["layer order"].beside) == ("relu", ("norm",))


def test_counts_that_are_kept_are_the_same_again(tmp_path):
    made = Score()
    made.planted("caffe-lenet", "conv: stride", effective=True)
    row = Row("caffe-lenet", "", "conv: stride", "conv1", float("inf"), True, found=True, said="different")
    made.compared(row)
    made.equal("caffe-lenet", alarm=False)
    kept = Kept(tmp_path)
    assert kept.get("caffe-lenet") is None
    kept.put("caffe-lenet", made)
    both = Score()
    both.take(kept["caffe-lenet"])
    assert both.to_json() == made.to_json()
    both.take(made)
    assert both.to_json()["faults"] == 2
