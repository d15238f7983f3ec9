"""A net against a dump of activations: what agrees, the first tensor that does not, and why."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import netweave
from netweave.comparison import Status, Verdict
from netweave.errors import UsageError


def save_net(file, *, pads=(1, 1, 1, 1), slope=0.0, bias=True, epsilon=1e-5, act=""):
    """Write conv, batch norm, activation, pooling, and a dense layer whose biases are not zero."""
    rng = np.random.default_rng(5)
    arrays = {
        "w": rng.normal(size=(6, 3, 3, 3)), "scale": rng.uniform(0.5, 2, 6), "shift": rng.normal(size=6),
        "mean": rng.normal(size=6), "var": rng.uniform(0.01, 1, 6), "dense": rng.normal(size=(6, 4)),
        "b": rng.normal(size=4) * bias,
    }  # fmt: skip
    alpha = {"alpha": slope} if slope else {}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=list(pads), strides=[2, 2]),
        helper.make_node(
            "BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n"], name="norm", epsilon=epsilon
        ),
        *(
            [
                helper.make_node("Sigmoid", ["n"], ["s"], name="gate"),
                helper.make_node("Mul", ["n", "s"], ["r"], name="act"),
            ]
            if act
            else [helper.make_node("LeakyRelu" if slope else "Relu", ["n"], ["r"], name="act", **alpha)]
        ),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "dense", "b"], ["y"], name="fc"),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", 1, ["N", 3, 10, 10])],
        [helper.make_tensor_value_info("y", 1, ["N", 4])],
        [numpy_helper.from_array(x.astype(np.float32), name) for name, x in arrays.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), file)
    return str(file)


def dump_of(net, *, without=()):
    x = np.random.default_rng(0).normal(size=(2, 3, 10, 10)).astype(np.float32)
    tensors = netweave.run(net, {"x": x}, taps=["c", "n", "r", "p"])
    renamed = {"c": "stem.0", "n": "stem.1", "r": "stem.2", "p": "pooled", "y": "logits"}
    return {"image": x} | {new: tensors[old] for old, new in renamed.items() if old not in without}


def save_dump(folder, tensors, kind="npz"):
    if kind == "npz":
        np.savez(folder / "dump.npz", **tensors)
        return f"dump:{folder / 'dump.npz'}"
    if kind == "safetensors":
        pytest.importorskip("safetensors.numpy").save_file(tensors, folder / "dump.safetensors")
        return f"dump:{folder / 'dump.safetensors'}"
    if kind == "pt":
        torch = pytest.importorskip("torch")
        torch.save({name: torch.tensor(x) for name, x in tensors.items()}, folder / "dump.pt")
        return f"dump:{folder / 'dump.pt'}"
    (folder / "dump").mkdir()
    for name, x in tensors.items():
        np.save(folder / "dump" / f"{name}.npy", x)
    return f"dump:{folder / 'dump'}"


@pytest.mark.parametrize("kind", ["npz", "safetensors", "pt", "folder"])
def test_a_right_dump_agrees_whatever_its_form_and_names(tmp_path, kind):
    net = save_net(tmp_path / "a.onnx")
    comparison = netweave.compare(net, save_dump(tmp_path, dump_of(net), kind))
    assert comparison.equal
    assert comparison.sentence.startswith("equal for these weights and inputs: the output is identical")
    assert "5 of 5 tensors of the dump hold values of A" in comparison.sentence
    assert not comparison.is_strictly_equal
    assert netweave.compare(net, save_dump(tmp_path, dump_of(net)), strict=True).exit_status == 3


def transposed(tensors):
    return {name: np.ascontiguousarray(np.moveaxis(x, 1, -1)) for name, x in tensors.items() if x.ndim == 4}


@pytest.mark.parametrize(
    "disguise",
    [
        lambda tensors: dict(reversed(tensors.items())),
        lambda tensors: {**tensors, **transposed(tensors), "image": tensors["image"]},
        lambda tensors: {**tensors, **transposed(tensors)},
        lambda tensors: {name: x for name, x in tensors.items() if name not in {"stem.1", "pooled"}},
        lambda tensors: {**tensors, "counter": np.arange(7), "other": np.ones((2, 5), np.float32)},
        lambda tensors: {n: x if n == "image" else x.astype(np.float16) for n, x in tensors.items()},
    ],
    ids=["order", "channels last", "inputs channels last", "missing", "more", "float16"],
)
def test_a_right_dump_agrees_in_disguise(tmp_path, disguise):
    net = save_net(tmp_path / "a.onnx")
    assert netweave.compare(net, save_dump(tmp_path, disguise(dump_of(net)))).equal


@pytest.mark.parametrize(
    ("other", "mismatch", "tensor", "layer", "words"),
    [
        ({"pads": (0, 0, 1, 1)}, "padding", "stem.0", "conv", "SAME padding, more at the end"),
        ({"epsilon": 1e-3}, "epsilon", "stem.1", "norm", "eps 0.001 in its norm"),
        ({"slope": 0.1}, "activation", "stem.2", "act", "LeakyReLU(0.1) in the place of Relu"),
        ({"act": "silu"}, "activation", "stem.2", "act", "SiLU in the place of Relu"),
        ({"bias": False}, "missing-bias", "logits", "fc", "no bias"),
    ],
)
def test_the_change_of_a_that_reproduces_the_first_wrong_tensor_is_named(
    tmp_path, other, mismatch, tensor, layer, words
):
    net, port = save_net(tmp_path / "a.onnx"), save_net(tmp_path / "b.onnx", **other)
    comparison = netweave.compare(net, save_dump(tmp_path, dump_of(port)))
    assert comparison.exit_status == 1
    (finding,) = comparison.findings
    assert (finding.mismatch, finding.layer_b, finding.layer_a) == (mismatch, tensor, layer)
    assert f"B's values and its output are those of A with {words}" in finding.cause
    assert finding.error_fixed < 1e-5 < finding.error
    assert sum(group.status is Status.DIFFERENT for group in comparison.groups) == 1


def test_a_wrong_tensor_that_nothing_explains_is_named_all_the_same(tmp_path):
    net = save_net(tmp_path / "a.onnx")
    tensors = dump_of(net)
    rng = np.random.default_rng(1)
    for name in ("stem.2", "pooled", "logits"):
        tensors[name] = tensors[name] + rng.normal(size=tensors[name].shape).astype(np.float32) * 0.2
    comparison = netweave.compare(net, save_dump(tmp_path, tensors))
    (finding,) = comparison.findings
    assert (finding.mismatch, finding.layer_a, finding.layer_b) == (None, "act", "stem.2")
    assert finding.cause.endswith("; what it is computed from agrees (stem.1)")


def test_a_dump_without_the_inputs_says_which_are_missing(tmp_path):
    net = save_net(tmp_path / "a.onnx")
    tensors = dump_of(net)
    del tensors["image"]
    match = r"has no tensor for the inputs x \(Nx3x10x10\) of net, which a run needs; capture them as well"
    with pytest.raises(UsageError, match=match):
        netweave.compare(net, save_dump(tmp_path, tensors))


def test_a_dump_that_ends_too_early_decides_nothing(tmp_path):
    net = save_net(tmp_path / "a.onnx")
    comparison = netweave.compare(net, save_dump(tmp_path, dump_of(net, without=("p", "y"))))
    assert comparison.exit_status == 3
    assert "3 of 3 tensors of the dump hold values of A, the last at 'act'" in comparison.sentence


def test_a_dump_of_another_input_decides_nothing(tmp_path):
    net = save_net(tmp_path / "a.onnx")
    tensors = dump_of(net)
    tensors["image"] = tensors["image"][::-1] * 3 + 1
    for name in ("stem.0", "stem.1", "stem.2", "pooled", "logits"):
        tensors[name] = np.random.default_rng(3).normal(size=tensors[name].shape).astype(np.float32)
    comparison = netweave.compare(net, save_dump(tmp_path, tensors))
    assert comparison.exit_status == 3
    assert "is it of the same inputs and weights?" in comparison.sentence


@pytest.mark.parametrize("num_wrong", [0, 3])
def test_eight_bits_convince_only_if_the_tensors_inside_agree_too(tmp_path, num_wrong):
    """An output that is off by a sixth of its rms is rounded, or wrong: what is inside says which."""
    net = save_net(tmp_path / "net.onnx")
    dump, random = dump_of(net), np.random.default_rng(1)
    for name in [*dump][1 : 1 + num_wrong]:
        dump[name] = random.normal(size=dump[name].shape).astype(np.float32)
    dump["logits"] = dump["logits"] * (1 + random.choice([-0.06, 0.06], dump["logits"].shape))
    rounded = {
        name: (x.astype(np.float32).view(np.uint32) & 0xFFF00000).view(np.float32) for name, x in dump.items()
    }
    rounded["image"] = dump["image"]
    compared = netweave.compare(net, save_dump(tmp_path, rounded))
    assert compared.verdict is (Verdict.UNDECIDED if num_wrong else Verdict.LATENT)
    assert "which float8 explains" in compared.sentence
    if num_wrong:
        assert "only 2 of 5 tensors of the dump hold values of A" in compared.sentence


def test_a_dump_alone_is_no_first_net(tmp_path):
    net = save_net(tmp_path / "a.onnx")
    with pytest.raises(UsageError, match="is compared with as the second net"):
        netweave.compare(save_dump(tmp_path, dump_of(net)), net)


def test_a_dump_leaves_no_choice_of_inputs(tmp_path):
    net = save_net(tmp_path / "a.onnx")
    probe = {"x": np.zeros((1, 3, 10, 10), np.float32)}
    with pytest.raises(UsageError, match="without the option probe"):
        netweave.compare(net, save_dump(tmp_path, dump_of(net)), probe=probe)


def test_two_dumps_are_compared_in_the_order_of_the_first(tmp_path):
    net, port = save_net(tmp_path / "a.onnx"), save_net(tmp_path / "b.onnx", slope=0.1)
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    right = save_dump(one, dump_of(net))
    wrong = {f"t{i}": x for i, x in enumerate(reversed(list(dump_of(port).values())))}
    comparison = netweave.compare(right, save_dump(two, wrong))
    assert comparison.findings[0].layer_a == "stem.2"
    assert netweave.compare(right, right).equal


def test_weights_are_still_compared_as_weights(tmp_path):
    net = save_net(tmp_path / "a.onnx")
    graph = netweave.load(net)
    arrays = {name: v.const_value.numpy() for name, v in graph.model.graph.initializers.items()}
    np.savez(tmp_path / "weights.npz", **arrays)
    assert netweave.compare(net, str(tmp_path / "weights.npz")).sentence.startswith("equal weights")


def test_a_difference_below_the_tolerance_of_outputs_is_named(tmp_path):
    net, port = save_net(tmp_path / "a.onnx"), save_net(tmp_path / "b.onnx", slope=0.0003)
    comparison = netweave.compare(net, save_dump(tmp_path, dump_of(port)))
    assert comparison.equal
    assert comparison.findings[0].latent
    assert ". Not so at act / stem.2: " in comparison.sentence


FAULTS = {
    "pairs": ("rotary-pairing", "rotary pairs taken as neighbours"),
    "theta": ("rotary-theta", "theta 500,000 in its rotary embedding"),
    "part": ("rotary-part", "a rotary embedding of 4 features of a head of 8"),
    "mask": ("causal-mask", "no causal mask"),
    "window": ("sliding-window", "a causal window of 3 steps"),
    "scale": ("factor", "no factor 0.353553 (1)"),
    "tile": ("head-order", "the heads tiled"),
    "relu": ("activation", "ReLU in the place of SiLU"),
    "gate": ("input-order", "the output of 'gate' and the output of 'up' exchanged"),
}


def decoder(fault=""):
    """Return a block of a decoder that makes a mistake."""
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional

    def turn(x):
        size = 4 if fault == "part" else 8
        theta = 500_000.0 if fault == "theta" else 10_000.0
        angles = torch.arange(x.shape[-2])[:, None] * theta ** (-torch.arange(0, size, 2) / size)
        cosines, sines = angles.cos(), angles.sin()
        if fault == "pairs":
            a, b = x[..., 0::2], x[..., 1::2]
            return torch.stack([a * cosines - b * sines, b * cosines + a * sines], -1).flatten(-2)
        a, b = x[..., : size // 2], x[..., size // 2 : size]
        return torch.cat([a * cosines - b * sines, b * cosines + a * sines, x[..., size:]], -1)

    class Decoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name, sizes in {"q": (32, 32), "k": (32, 16), "v": (32, 16), "o": (32, 32)}.items():
                setattr(self, name, torch.nn.Linear(*sizes, bias=False))
            self.gate = torch.nn.Linear(32, 48, bias=False)
            self.up = torch.nn.Linear(32, 48, bias=False)
            self.down = torch.nn.Linear(48, 32, bias=False)

        def forward(self, x):
            q, k, v = (
                part(x).view(x.shape[0], 10, -1, 8).transpose(1, 2) for part in (self.q, self.k, self.v)
            )
            q, k = turn(q), turn(k)
            k, v = (y.repeat(1, 2, 1, 1) if fault == "tile" else y.repeat_interleave(2, 1) for y in (k, v))
            scores = q @ k.transpose(-1, -2) * (1.0 if fault == "scale" else 8**-0.5)
            hidden = torch.ones(10, 10).triu(1) + (torch.ones(10, 10).tril(-3) if fault == "window" else 0)
            if fault != "mask":
                scores = scores.masked_fill(hidden.bool(), float("-inf"))
            x = x + self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape[0], 10, 32))
            gate, up = (self.up(x), self.gate(x)) if fault == "gate" else (self.gate(x), self.up(x))
            act = functional.relu if fault == "relu" else functional.silu
            return x + self.down(act(gate) * up)

    torch.manual_seed(4)
    return Decoder().eval()


@pytest.mark.slow
def test_mistakes_of_decoders_are_named(tmp_path):
    torch = pytest.importorskip("torch")
    original = netweave.load(decoder(), input_shapes={"x": (1, 10, 32)})
    x = torch.randn(1, 10, 32) * 2
    found = {}
    for fault in FAULTS:
        port = decoder(fault)
        with torch.no_grad(), netweave.capture(port) as dump:
            port(x)
        dump.save(tmp_path / f"{fault}.npz")
        (finding,) = netweave.compare(original, tmp_path / f"{fault}.npz").findings
        found[fault] = finding.mismatch, finding.cause.partition("are those of A with ")[2].partition("; ")[0]
        assert finding.layer_b == ("down" if fault in {"gate", "relu"} else "o")
    assert {fault: (key, said.partition(", in ")[0]) for fault, (key, said) in found.items()} == FAULTS


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_capture_records_inputs_modules_and_outputs_of_a_module(tmp_path, suffix):
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(5, 5)
            self.act = torch.nn.GELU()

        def forward(self, x, scale=1.0):
            once = self.fc(x) * scale
            return {"y": self.act(self.fc(once)), "parts": [once, x > 0]}

    torch.manual_seed(0)
    module = Net().eval()
    x = torch.randn(3, 5)
    with torch.no_grad(), netweave.capture(module) as dump:
        module(x, scale=2.0)
    assert list(dump.tensors) == [
        "input.x", "fc", "fc#1", "act", "output.y", "output.parts.0", "output.parts.1",
    ]  # fmt: skip
    module(x)
    assert len(dump.tensors) == 7
    file = tmp_path / f"dump.{suffix}"
    dump.save(file)
    plain = torch.nn.Sequential(module.fc, module.act).eval()
    with torch.no_grad(), netweave.capture(plain) as other:
        plain(x)
    other.save(file)
    assert netweave.compare(plain, file, input_shapes={"input": (3, 5)}).equal
    wrong = torch.nn.Sequential(module.fc, torch.nn.ReLU()).eval()
    comparison = netweave.compare(wrong, file, input_shapes={"input": (3, 5)})
    assert comparison.findings[0].mismatch == "activation"
    assert "GELU (erf) in the place of Relu" in comparison.findings[0].cause
    with pytest.raises(UsageError, match=r"\.npz or \.safetensors"):
        dump.save(tmp_path / "dump.h5")


def test_capture_of_nothing_is_refused(tmp_path):
    torch = pytest.importorskip("torch")
    with pytest.raises(UsageError, match=r"takes a PyTorch nn\.Module, not int"):
        netweave.capture(3)
    with pytest.raises(UsageError, match="nothing was recorded"):
        netweave.capture(torch.nn.ReLU()).save(tmp_path / "dump.npz")
