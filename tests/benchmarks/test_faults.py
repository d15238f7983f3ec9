"""The injector of planted faults: what it edits, that it knows nothing of Netweave, and the two halves."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.faults import arrays, comparing, darknet_faults, halves, onnx_faults
from benchmarks.faults.bare import UNSEEN, bare
from benchmarks.faults.comparing import Forms, Planted, equal_pairs
from benchmarks.faults.kept import Kept, state_of
from benchmarks.faults.model import Subject
from benchmarks.faults.score import Lacking, Row, Score
from benchmarks.faults.table import bare_rows
from benchmarks.faults.torch_source import edited, lines_of

FOLDER = Path(halves.__file__).parent
RUNS_NETWEAVE = {"run.py", "score.py", "comparing.py", "loading.py", "mending.py"}

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


def counted():
    """Return the counts of a net with one comparison with weights, one without, and an equal pair of each."""
    made = Score()
    made.planted("caffe-lenet", "conv: stride", float("inf"), seen=True)
    row = Row("caffe-lenet", "", "conv: stride", "conv1", float("inf"), True, found=True, said="different")
    made.compared(row)
    made.compared(replace(row, lacking=Lacking.BOTH.value, found=False, false_equal=True))
    made.equal("caffe-lenet", Lacking.NEITHER, alarm=False)
    made.equal("caffe-lenet", Lacking.B, alarm=True)
    return made


def test_counts_that_are_kept_are_the_same_again(tmp_path):
    made, kept = counted(), Kept.of(tmp_path)
    assert kept.get("caffe-lenet") is None
    kept.put("caffe-lenet", made)
    both = Score()
    both.take(kept["caffe-lenet"])
    assert both.to_json() == made.to_json()
    both.take(made)
    assert both.to_json()["faults"] == 2


def test_counts_of_one_state_of_the_code_are_never_those_of_another(tmp_path):
    code, page = tmp_path / "code", tmp_path / "code" / "page.html"
    code.mkdir()
    page.write_text("one")
    before = Kept.of(tmp_path / "scores", code)
    before.put("caffe-lenet", counted())
    assert Kept.of(tmp_path / "scores", code).names() == ["caffe-lenet"]
    page.write_text("two")
    with pytest.raises(RuntimeError, match=r"^caffe-quick: the code changed during the run"):
        before.put("caffe-quick", counted())
    assert Kept.of(tmp_path / "scores", code).names() == []
    page.rename(code / "other.html")
    assert state_of([code]) not in {before.state, Kept.of(tmp_path / "scores").state}


def test_comparisons_without_weights_are_counted_by_themselves():
    found = counted().to_json()
    bare = found["without_weights"]
    assert (found["compared"], found["found"], found["equal_pairs"], found["false_alarms"]) == (1, 1, 1, 0)
    assert (bare["compared"], bare["found"], bare["false_equals"]) == (1, 0, 1)
    assert (bare["equal_pairs"], bare["false_alarms"]) == (1, 1)
    assert (
        bare["by"]["both have none"]["compared"]
        == bare["by"]["format caffe, both have none"]["compared"]
        == 1
    )
    assert bare["by"]["B has none"]["compared"] == 0
    assert [row["lacking"] for row in bare["missed"]] == ["both have none"]
    table = list(bare_rows(found))
    assert [row[:3] for row in table if row[0].startswith("caffe")] == [
        ["caffe, B has none", "0", "0"],
        ["caffe, both have none", "1", "0"],
    ]
    assert {len(row) for row in table} == {len(table[0])}


def nets_with_faults():
    """Yield nets that need no other program, each with its faults."""
    yield from darknet_faults.subjects(lambda name: True)
    yield from onnx_faults.subjects(lambda name: name in {"onnx-lenet", "onnx-inception", "onnx-enhance"})


def test_faults_that_cannot_be_seen_without_weights_leave_the_right_net():
    kinds: dict[bool, set[str]] = {True: set(), False: set()}
    for subject in nets_with_faults():
        own = bare(subject.net)
        for fault in subject.faults:
            same = bare(fault.net).files == own.files
            assert same == (fault.kind in UNSEEN), (subject.name, fault.kind, fault.layer)
            kinds[same].add(fault.kind)
    assert kinds[True] >= {"one weight changed", "bias lost", "bn: gamma as 1", "channel order"}
    assert kinds[False] >= {"conv: stride", "leaky slope", "wrong factor", "deconv: padding"}
    assert {kind for kind, *_ in arrays.CHANGES} <= set(UNSEEN)


def test_forms_without_weights_are_compared_with_one_another_and_with_themselves():
    forms = Forms({"": "net", "renamed": "r", "folded": "f"}, {"": "bare net", "renamed": "bare r"})
    pairs = list(equal_pairs(forms))
    assert len([pair for pair in pairs if pair[2] is Lacking.NEITHER]) == 6
    rest = [pair for pair in pairs if pair[2] is not Lacking.NEITHER]
    assert ("", "", Lacking.B) in rest
    assert not [pair for pair in rest if pair[1] == "folded" or pair[::2] == ("folded", Lacking.BOTH)]
    assert {lacking for first, second, lacking in rest if first != second} == {Lacking.B, Lacking.BOTH}


def test_a_comparison_that_crashes_is_counted_as_not_found(tmp_path, monkeypatch):
    def crash(a, b):
        raise KeyError(("a", "b"))

    monkeypatch.setattr(comparing, "netweave", SimpleNamespace(compare=crash))
    right = darknet_faults.draw("plain")
    fault = next(darknet_faults.faults(right, count=1))
    subject = Subject("darknet-plain", right.net(), {}, [fault])
    fault.net.write(tmp_path / "fault0")
    planted = Planted(subject, fault, tmp_path / "fault0", 1.0)
    rows = list(planted.rows(Forms({"": "net"}, {}), [("", Lacking.NEITHER)]))
    assert [(row.found, row.said) for row in rows] == [(False, "KeyError: ('a', 'b')")]
