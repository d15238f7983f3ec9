"""Dumps in the layouts of SGLang and vLLM, tensors in parts or fused, and sequences padded or packed."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.comparison.dumps.shards import join_parts, take_apart
from netweave.comparison.dumps.tensors import TOLERANCES, precision_of
from netweave.errors import UsageError

torch = pytest.importorskip("torch")


class Net(torch.nn.Module):
    """A step-wise net: each token on its own."""

    def __init__(self, act=torch.nn.functional.silu):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.up = torch.nn.Embedding(20, 8), torch.nn.Linear(8, 12)
        self.down, self.act = torch.nn.Linear(12, 8), act

    def forward(self, ids):
        x = self.embed(ids)
        return x + self.down(self.act(self.up(x)))


IDS = torch.tensor([[3, 1, 4, 1, 5, 9]])


def tensors_of(net, ids=IDS):
    with torch.no_grad(), netweave.capture(net) as dump:
        net(ids)
    return {name: torch.tensor(x) for name, x in dump.tensors.items()}


def compared(folder, **settings):
    return netweave.compare(Net(), f"dump:{folder}", input_shapes={"ids": (1, 6)}, **settings)


def save(folder, name, value):
    path = folder / f"{name}.pt"
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(value, path)


def parts(x, count):
    return torch.tensor_split(x, count, -1) if x.is_floating_point() else [x] * count


def in_sglangs_dumper(folder, tensors):
    for index, (name, x) in enumerate(tensors.items()):
        for rank, part in enumerate(parts(x[0], 2)):
            tags = f"step=0___rank={rank}___dump_index={index + 10 * rank}___name={name}___layer_id=0"
            save(folder, tags, {"value": part.clone(), "meta": {"rank": rank, "dims": "t h"}})


def in_sglangs_hooks(folder, tensors):
    for rank in range(2):
        held = {
            name: parts(x, 2)[rank].clone() for name, x in tensors.items() if not name.startswith("input")
        }
        held["model.forward_batch_info.input_ids"] = IDS[0]
        held["down"] = [held["down"], held["down"] * 3]
        save(folder, f"TP{rank}_PP0_Rank{rank}_pid{400 + rank}/Pass00000", held)


def in_vllms_logging(folder, tensors):
    for name, x in tensors.items():
        file = "inputs_0_cuda_0" if name.startswith("input") else "outputs_cuda_0"
        save(folder, f"run/step_0/model.{name}/{file}", (x,) if name == "up" else x)
        (folder / f"run/step_0/model.{name}/outputs.json").write_text("{}")


LAYOUTS = [in_sglangs_dumper, in_sglangs_hooks, in_vllms_logging]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_folders_of_runtimes_are_read_and_ranks_joined(tmp_path, layout):
    layout(tmp_path, tensors_of(Net()))
    assert compared(tmp_path).equal


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_mistake_is_named_in_the_folder_of_a_runtime(tmp_path, layout):
    layout(tmp_path, tensors_of(Net(torch.nn.functional.relu)))
    (finding,) = compared(tmp_path).findings
    assert finding.mismatch == "activation"
    assert "down" in finding.layer_b


def test_steps_follow_one_another(tmp_path):
    for step, ids in enumerate(torch.tensor_split(IDS, [4, 5], 1)):
        for name, x in tensors_of(Net(), ids).items():
            save(tmp_path, f"step{step}/{name}", x)
    assert compared(tmp_path).equal
    assert netweave.compare(Net(), f"dump:{tmp_path}").equal  # read at the sizes of all steps


def test_partial_sums_of_ranks_are_added():
    x = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    joined = join_parts({"rank0/o": x * 0.25, "rank1/o": x * 0.75, "a": x[:1]}, {"o": x}, tolerance=1e-4)
    assert list(joined) == ["rank0/o", "a"]
    assert np.allclose(joined["rank0/o"], x)


def test_parts_that_give_nothing_of_the_net_stay_as_they_are():
    rng = np.random.default_rng(1)
    arrays = {f"rank{i}/o": rng.normal(size=(3, 8)).astype(np.float32) for i in range(2)}
    assert join_parts(arrays, {"o": rng.normal(size=(5, 7)).astype(np.float32)}, tolerance=1e-4) == arrays


def test_a_folder_without_tensors_says_what_a_dump_is(tmp_path):
    with pytest.raises(UsageError, match=r"holds no \.npy, \.npz, \.pt or \.safetensors; a dump is a folder"):
        compared(tmp_path)


def test_tensors_that_fit_an_input_alone_and_not_with_the_others_are_passed_over(tmp_path):
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.embed, self.mix = torch.nn.Embedding(20, 8), torch.nn.Linear(16, 8)

        def forward(self, sound, ids):
            return self.mix(torch.cat((self.embed(ids), sound), -1))

    net, sound = Two(), torch.randn(1, 6, 8)
    with torch.no_grad(), netweave.capture(net) as dump:
        net(sound, IDS)
    arrays = dict(dump.tensors)
    arrays["x"], arrays["other.input"] = arrays.pop("input.sound"), np.ones((12, 8), np.float32)
    arrays["y"] = arrays.pop("input.ids")
    np.savez(tmp_path / "dump.npz", **arrays)
    shapes = {"sound": (1, 6, 8), "ids": (1, 6)}
    assert netweave.compare(net, f"dump:{tmp_path / 'dump.npz'}", input_shapes=shapes).equal


class Gated(torch.nn.Module):
    """An MLP with a gate, in one dense layer or two, and with what each head has together or not."""

    def __init__(self, heads=0, act=torch.nn.functional.silu, scale=1.0):
        super().__init__()
        torch.manual_seed(0)
        self.embed, gate, up = torch.nn.Embedding(20, 8), torch.nn.Linear(8, 12), torch.nn.Linear(8, 12)
        self.down, self.heads, self.act = torch.nn.Linear(12, 8), heads, act
        if not heads:
            self.gate, self.up = gate, up
            return
        self.both = torch.nn.Linear(8, 24)
        for name in ("weight", "bias"):
            rows = [getattr(layer, name).unflatten(0, (heads, -1)) for layer in (gate, up)]
            getattr(self.both, name).data = torch.cat(rows, 1).flatten(0, 1) * scale

    def forward(self, ids):
        x = self.embed(ids)
        if self.heads:
            both = self.both(x).unflatten(-1, (self.heads, -1)).chunk(2, -1)
            gate, up = (part.flatten(-2) for part in both)
        else:
            gate, up = self.gate(x), self.up(x)
        return x + self.down(self.act(gate) * up)


def compared_gated(tmp_path, tensors, length=6):
    np.savez(tmp_path / "dump.npz", **{name: np.asarray(x) for name, x in tensors.items()})
    return netweave.compare(Gated(), f"dump:{tmp_path / 'dump.npz'}", input_shapes={"ids": (1, length)})


@pytest.mark.parametrize("heads", [1, 3])
def test_fused_layers_are_taken_apart(tmp_path, heads):
    comparison = compared_gated(tmp_path, tensors_of(Gated(heads)))
    assert comparison.equal
    assert "5 of 5 tensors of the dump hold values of A" in comparison.sentence


def test_the_first_wrong_tensor_may_be_a_fused_one(tmp_path):
    (finding,) = compared_gated(tmp_path, tensors_of(Gated(3, scale=1.1))).findings
    assert (finding.layer_a, finding.layer_b) == ("gate", "both[heads, 0:4]")


def test_a_tensor_that_is_no_fused_one_stays_whole():
    rng = np.random.default_rng(0)
    values = {name: rng.normal(size=(2, 5, 4)).astype(np.float32) for name in "qk"}
    arrays = {"other": rng.normal(size=(2, 5, 8)).astype(np.float32)}
    assert take_apart(arrays, values, [["q", "k"]], tolerance=1e-4) == arrays


def padded(net):
    """Return the dump of two sequences of 6 and 4 tokens, with two more steps at the left."""
    rows, mask = torch.full((2, 8), 7), torch.zeros(2, 8, dtype=torch.int64)
    for row, length in enumerate((6, 4)):
        rows[row, 8 - length :] = IDS[0, :length]
        mask[row, 8 - length :] = 1
    return {**tensors_of(net, rows), "attention_mask": mask}


def packed(net):
    """Return the dump of two sequences of 6 and 4 tokens that follow each other, with their positions."""
    ids = torch.cat((IDS[:, :6], IDS[:, :4]), 1)
    positions = torch.tensor([*range(6), *range(4)])
    return {name: x[0] for name, x in tensors_of(net, ids).items()} | {"positions": positions}


def with_starts(net):
    tensors = packed(net)
    del tensors["positions"]
    return {**tensors, "cu_seqlens": torch.tensor([0, 6, 10])}


class Looking(Gated):
    """A net whose steps read all before them."""

    def forward(self, ids):
        x = self.embed(ids)
        x = x.cumsum(1) / torch.arange(1, ids.shape[1] + 1)[:, None]
        return x + self.down(self.act(self.gate(x)) * self.up(x))


@pytest.mark.parametrize("form", [padded, packed, with_starts])
def test_sequences_are_compared_without_padding_each_length_by_itself(tmp_path, form):
    comparison = compared_gated(tmp_path, form(Gated()))
    assert comparison.equal
    assert "sequences of 6 and 4 tokens were compared" in comparison.notes[-1]


def test_a_mistake_is_named_in_padded_sequences(tmp_path):
    (finding,) = compared_gated(tmp_path, padded(Gated(act=torch.nn.functional.relu))).findings
    assert (finding.mismatch, finding.layer_b) == ("activation", "down")


def test_padding_that_sequences_read_is_a_difference(tmp_path):
    tensors = padded(Looking())
    np.savez(tmp_path / "dump.npz", **{name: np.asarray(x) for name, x in tensors.items()})
    comparison = netweave.compare(Looking(), f"dump:{tmp_path / 'dump.npz'}", input_shapes={"ids": (1, 8)})
    assert not comparison.equal


def test_a_mask_of_scores_is_no_mask_of_a_batch(tmp_path):
    seen = torch.ones(6, 6, dtype=torch.bool).tril()
    assert compared_gated(tmp_path, tensors_of(Gated()) | {"mask": seen}).equal


def test_float8_is_told_by_the_bits_that_it_leaves():
    x = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)
    unit = 2.0 ** (np.floor(np.log2(np.abs(x))) - 3)
    rounded = (np.round(x / unit) * unit).astype(np.float32)
    assert precision_of([rounded]) == "float8"
    assert np.abs(rounded - x).max() < TOLERANCES["float8"] * np.sqrt(np.square(x).mean())
