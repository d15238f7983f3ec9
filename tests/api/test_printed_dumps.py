"""Text that llama.cpp prints: a few values of each tensor."""

from __future__ import annotations

import re

import numpy as np
import pytest

import netweave
from netweave.errors import ReadError, UsageError
from netweave.files.printed_tensors import read_printed_tensors

torch = pytest.importorskip("torch")

TEXT = """load: n_ctx = 512
common_debug_cb_eval:             norm-0 = (f32)   RMS_NORM(inp_embd{8, 2, 1, 1}, }) = {8, 2, 1, 1}
    [
        [
            [      0.1000,      -0.2000,       0.3000,    ...,        0.6000,       0.7000,       0.8000  ],
            [      1.1000,       1.2000,       1.3000,    ...,        1.6000,       1.7000,      -1.8000  ],
        ],
    ]
    sum = 9.900000
ggml_debug:               inp_pos = (i32)        GET_ROWS(a{1, 1, 1, 1}, b{1, 1, 1, 1}}) = {2, 1, 1, 1}
                                     [
                                      [
                                       [ 0.0000,   1.0000],
                                      ],
                                     ]
ggml_debug:                 norm-0 = (f32)       MUL(norm-0{8, 2, 1, 1}, w{8, 1, 1, 1}}) = {8, 2, 1, 1}
                                     [
                                      [
                                       [ 0.5000,   0.6000,   0.7000, ...],
                                       [ 0.8000,   0.9000,   1.0000, ...],
                                      ],
                                     ]
"""


def test_values_stand_where_they_were_printed(tmp_path):
    (tmp_path / "out.txt").write_text(TEXT)
    arrays = read_printed_tensors(tmp_path / "out.txt")
    assert list(arrays) == ["norm-0", "norm-0#1"]
    nan = np.nan
    expected = [[0.1, -0.2, 0.3, nan, nan, 0.6, 0.7, 0.8], [1.1, 1.2, 1.3, nan, nan, 1.6, 1.7, -1.8]]
    np.testing.assert_allclose(arrays["norm-0"], np.asarray(expected, np.float32))
    assert np.isnan(arrays["norm-0#1"][:, 3:]).all()
    assert arrays["norm-0#1"][1, 2] == 1


def test_a_text_without_tensors_is_refused(tmp_path):
    (tmp_path / "out.txt").write_text("hello\n")
    with pytest.raises(ReadError, match="holds no tensors as llama-eval-callback prints them"):
        read_printed_tensors(tmp_path / "out.txt")


class Net(torch.nn.Module):
    """Layers with a norm and a gate."""

    def __init__(self, act=torch.nn.functional.silu, scale=1.0):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.norm = torch.nn.Embedding(20, 16), torch.nn.LayerNorm(16)
        self.up, self.gate, self.down = (
            torch.nn.Linear(16, 24),
            torch.nn.Linear(16, 24),
            torch.nn.Linear(24, 16),
        )
        self.head, self.act, self.scale = torch.nn.Linear(16, 20), act, scale

    def forward(self, ids):
        x = self.embed(ids) * self.scale
        y = self.norm(x)
        return self.head(x + self.down(self.act(self.gate(y)) * self.up(y)))


IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2]])


def printed(values, indent):
    if values.ndim == 1:
        shown = [f"{v:12.4f}" for v in values]
        shown = shown if len(values) <= 6 else [*shown[:3], "   ...", *shown[-3:]]
        return indent + "[" + ", ".join(shown) + "  ],\n"
    rows = [printed(row, indent + "    ") for row in values]
    rows = rows if len(rows) <= 6 else [*rows[:3], indent + "    ..., \n", *rows[-3:]]
    return indent + "[\n" + "".join(rows) + indent + "],\n"


def write_text(file, net, *, only=()):
    """Write what a net computes as llama.cpp would."""
    with torch.no_grad(), netweave.capture(net) as dump:
        net(IDS)
    text = ""
    for name, x in dump.tensors.items():
        if name.startswith("input") or (only and name not in only):
            continue
        x = x.reshape(1, 1, *x.shape[1:])
        sizes = ", ".join(str(size) for size in reversed(x.shape))
        text += f"common_debug_cb_eval: {name:>24} = (f32) MUL_MAT(w{{1, 1, 1, 1}}, }}) = {{{sizes}}}\n"
        text += printed(x[0], "    ") + f"    sum = {x.sum():f}\n"
    file.write_text(text)
    return f"dump:{file}"


def compared(dump, **settings):
    return netweave.compare(Net(), dump, input_shapes={"ids": (1, 7)}, **settings)


def test_a_right_text_agrees_by_the_values_that_are_printed(tmp_path):
    comparison = compared(write_text(tmp_path / "out.txt", Net()), probe={"ids": IDS.numpy()})
    assert comparison.equal
    assert (
        "7 of 7 tensors of the dump hold values of A, by the few values that are printed"
        in comparison.sentence
    )
    assert "values that are not printed" in str(comparison.coverage)
    assert not comparison.is_strictly_equal


def test_a_mistake_is_named_by_the_values_that_are_printed(tmp_path):
    np.savez(tmp_path / "ids.npz", ids=IDS.numpy())
    dump = write_text(tmp_path / "out.log", Net(torch.nn.functional.relu))
    (finding,) = compared(dump, probe=tmp_path / "ids.npz").findings
    assert (finding.mismatch, finding.layer_b) == ("activation", "down")


def test_a_text_needs_the_inputs(tmp_path):
    with pytest.raises(
        UsageError, match=r"llama\.cpp prints no inputs; give those of the run with --probe FILE"
    ):
        compared(write_text(tmp_path / "out.txt", Net()))


def test_too_few_values_decide_nothing(tmp_path):
    dump = write_text(tmp_path / "out.txt", Net(), only=("embed",))
    (tmp_path / "out.txt").write_text(re.sub(r"-?\d\.\d{4}", "0.0000", (tmp_path / "out.txt").read_text()))
    comparison = compared(dump, probe={"ids": IDS.numpy()})
    assert comparison.exit_status == 3
    assert "the dump prints too few values of each tensor to tell one from another" in comparison.sentence


def test_not_a_number_in_a_full_dump_is_no_unknown_value(tmp_path):
    net = Net()
    with torch.no_grad(), netweave.capture(net) as dump:
        net(IDS)
    for name in ("head", "output"):
        dump.tensors[name][0, :3] = np.nan
    dump.save(tmp_path / "dump.npz")
    assert not compared(tmp_path / "dump.npz").equal
