"""Code that decides by the length of a sequence, by a mask or by positions; PyTorch says which agree."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import netweave  # noqa: E402
from netweave.comparison import Verdict, compare  # noqa: E402
from netweave.comparison.execution.draws import draw_array  # noqa: E402
from netweave.comparison.execution.input_domains import Domain  # noqa: E402
from netweave.files.persistent_child import PersistentChild  # noqa: E402
from netweave.files.sandbox import has_guard  # noqa: E402
from netweave.formats.pytorch.module_inputs import left_out, lengths_of  # noqa: E402

TOKENS = 8
SHAPES = {"ids": (1, TOKENS), "mask": (1, TOKENS), "positions": (1, TOKENS)}


class Reader(torch.nn.Module):
    """Sums what is embedded of the last steps, in a manner that may depend on the length."""

    def __init__(self, *, window=0, wrap=0, rows=0, base=0, uses_mask=True, uses_positions=True):
        super().__init__()
        self.window, self.wrap, self.base = window, wrap, base
        self.uses_mask, self.uses_positions = uses_mask, uses_positions
        generator = torch.Generator().manual_seed(0)
        self.embed = torch.nn.Embedding(11, 6)
        self.dense = torch.nn.Linear(6, 5)
        self.table = torch.nn.Parameter(torch.zeros(rows, 6)) if rows else None
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))

    def forward(self, ids, mask=None, positions=None):
        x = self.embed(ids)
        steps = torch.arange(ids.shape[1])
        if positions is not None and self.uses_positions:
            x = x * (1.0 + positions.float()[..., None] / 8)
        if self.wrap:
            x = x * torch.cos((steps % self.wrap).float() / 4)[:, None]
        if self.table is not None:
            x = x + self.table[: ids.shape[1]]
        if self.base and ids.shape[1] > self.base:
            x = x * 2
        far = steps[:, None] - steps
        seen = far >= 0
        if self.window:
            seen = seen & (far < self.window)
        weights = seen.float()[None]
        if mask is not None and self.uses_mask:
            weights = weights * (mask != 0).float()[:, None]
        return self.dense(torch.bmm(weights.expand(ids.shape[0], -1, -1), x) / 8)


def pair(first, second, *, inputs=("ids",)):
    shapes = {name: SHAPES[name] for name in inputs}
    return [netweave.load(net.eval(), input_shapes=shapes) for net in (first, second)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("own", "other"),
    [
        ({"window": 32}, {}),
        ({"window": 32}, {"window": 33}),
        ({"wrap": 1000}, {"wrap": 32}),
        ({"base": 40}, {}),
        ({"base": 40}, {"base": 60}),
    ],
    ids=["window", "window one more", "positions wrap", "doubled beyond", "doubled later"],
)
def test_what_only_a_longer_sequence_shows_is_found(own, other):
    a, b = Reader(**own).eval(), Reader(**other).eval()
    long = torch.arange(70)[None] % 11
    assert torch.allclose(a(long[:, :TOKENS]), b(long[:, :TOKENS]))
    assert not torch.allclose(a(long[:, :50]), b(long[:, :50]))
    found = compare(*pair(a, b))
    assert found.verdict is Verdict.DIFFERENT
    assert (
        "the nets agree on the sequences that they were read with, and differ on longer ones" in found.notes
    )
    assert compare(*pair(a, b), one_size=True).verdict is Verdict.IDENTICAL


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"window": 32}, {"wrap": 32}, {"base": 40}, {"rows": 64}])
def test_right_nets_stay_identical(settings):
    found = compare(*pair(Reader(**settings), Reader(**settings)))
    assert found.verdict is Verdict.IDENTICAL
    said = [f"mask, positions (left out of the inputs of {side})" for side in "AB"]
    assert found.sentence.endswith(f"not exercised: {'; '.join(said)}")
    assert found.probes[-1].startswith("sequences of up to ")


@pytest.mark.slow
def test_a_length_that_one_net_refuses_is_said():
    a, b = Reader(rows=64), Reader(rows=40)
    with torch.no_grad():
        b.table.copy_(a.table[:40])
    for name in ("embed.weight", "dense.weight", "dense.bias"):
        b.get_parameter(name).data.copy_(a.get_parameter(name))
    found = compare(*pair(a, b))
    assert found.verdict is Verdict.LATENT
    assert "not exercised: sequences of 41 (A takes them, B does not)" in found.sentence
    assert compare(*reversed(pair(a, b))).verdict is Verdict.LATENT


@pytest.mark.slow
def test_weights_that_are_changed_after_reading_are_not_read_again():
    a, b = pair(net := Reader(), Reader())
    with torch.no_grad():
        net.dense.bias.add_(1)
    found = compare(a, b)
    assert found.verdict is Verdict.IDENTICAL
    assert "sequences of another length (only of 8)" in found.sentence


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mask", "positions"])
def test_an_input_that_one_net_ignores_is_found(name):
    inputs = ("ids", name)
    other = Reader(uses_mask=name != "mask", uses_positions=name != "positions")
    assert compare(*pair(Reader(), Reader(), inputs=inputs)).verdict is Verdict.IDENTICAL
    assert compare(*pair(Reader(), other, inputs=inputs)).verdict is Verdict.DIFFERENT


@pytest.mark.slow
def test_a_file_is_read_again(tmp_path):
    file = tmp_path / "reader.py"
    text = (
        "import torch\n\n\nclass Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    )
    text += "        self.embed = torch.nn.Embedding(11, 6)\n\n    def forward(self, ids):\n"
    text += "        steps = torch.arange(ids.shape[1])\n        return self.embed(ids) * (STEPS)[:, None]\n"
    nets = []
    for name, steps in (("a", "steps.float()"), ("b", "(steps % 32).float()")):
        path = file.with_stem(name)
        path.write_text(text.replace("STEPS", steps))
        torch.save({"embed.weight": torch.arange(66.0).reshape(11, 6)}, path.with_suffix(".pt"))
        nets.append(f"{path}:Net,{path.with_suffix('.pt')}")
    assert netweave.compare(*nets, input_shapes={"ids": (1, TOKENS)}).verdict is Verdict.DIFFERENT


def test_numbers_of_the_code_and_its_tables_are_lengths():
    net = Reader(window=32, rows=48)
    found = lengths_of(net)
    assert (found[32], found[48]) == ("window", "size of table")
    assert found[8] == "number in Reader"
    assert left_out(net, ["ids", "mask"]) == ["positions"]


def test_masks_leave_out_steps_on_both_sides_and_never_the_first():
    drawn = draw_array(Domain(0, 1, kind="mask"), np.dtype(np.int64), (3, 16), np.random.default_rng(0))
    assert drawn[:, 0].all()
    assert not drawn[:2, 1].any()
    assert not drawn[:2, -1].any()
    assert {0, 1} == {*drawn[2].tolist()}


def test_positions_begin_again_within_a_sample():
    domain = Domain(low=0, kind="positions")
    drawn = draw_array(domain, np.dtype(np.int64), (3, 16), np.random.default_rng(0))
    assert all(0 in row[1:] for row in drawn.tolist())
    assert set(np.diff(drawn).reshape(-1).tolist()) - {1}


@pytest.mark.slow
def test_an_export_of_one_length_stays_identical(tmp_path):
    graph = netweave.load(Reader(window=32).eval(), input_shapes={"ids": (1, TOKENS)})
    netweave.save(graph, tmp_path / "net.onnx")
    found = compare(graph, netweave.load(tmp_path / "net.onnx"))
    assert found.verdict is Verdict.IDENTICAL
    assert "sequences of another length (only of 8)" in found.sentence


@pytest.mark.slow
def test_a_table_as_long_as_the_other_net_is_made_for_is_identical():
    a, b = Reader(), Reader(rows=40)
    a.max_length = 40
    with torch.no_grad():
        b.table.zero_()
    for name in ("embed.weight", "dense.weight", "dense.bias"):
        b.get_parameter(name).data.copy_(a.get_parameter(name))
    found = compare(*pair(a, b))
    assert found.verdict is Verdict.IDENTICAL
    assert "sequences of 41 (A takes them, B does not)" in found.sentence


@pytest.mark.skipif(not has_guard(), reason="bubblewrap is not installed")
def test_the_code_of_a_net_is_imported_by_one_process(tmp_path, monkeypatch):
    """One reads each net, and then runs it on longer sequences."""
    started = []
    start = PersistentChild.start
    monkeypatch.setattr(
        PersistentChild, "start", lambda *args, **kw: started.append(kw["place"]) or start(*args, **kw)
    )
    source = inspect.getsource(Reader).replace("wrap=0", "wrap=16")
    for name, wrap in (("a", 16), ("b", 32)):
        code = f"import torch\n\n\n{source.replace('wrap=16', f'wrap={wrap}')}"
        (tmp_path / f"{name}.py").write_text(code)
        torch.save(Reader(wrap=wrap).state_dict(), tmp_path / f"{name}.pt")
    nets = [f"{tmp_path / name}.py,{tmp_path / name}.pt" for name in "ab"]
    comparison = netweave.compare(*nets, input_shapes={"ids": (1, TOKENS)})
    assert comparison.verdict is Verdict.DIFFERENT
    assert "differ on longer ones" in " ".join(comparison.notes)
    assert sorted(started[:2]) == [str(tmp_path / "a.py"), str(tmp_path / "b.py")]  # side by side
    assert len(started) <= 4  # nets are compared in both orders here
