"""Mistakes of how layers are put together, named from a dump alone."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.comparison.dumps.sequences import _Frequencies

torch = pytest.importorskip("torch")

FAULTS = {
    "post-norm": ("layer-order", "its norm behind the residual sum (post-norm)", "layers.0.linear"),
    "residual-normed": ("layer-order", "as the residual, which is taken behind the norm", "layers.0"),
    "no-norm": ("missing-layer", "no norm of 24 features (RMSNormalization)", "layers.0.linear"),
    "other-norm": ("weights", "the weights of the norm of", "layers.1.norm"),
    "no-last-norm": ("missing-layer", "no norm of 24 features (RMSNormalization)", "output"),
    "mean": ("norm-kind", "the mean subtracted, as LayerNorm does and RMSNorm does not", "layers.0.norm"),
    "no-places": ("missing-term", "a sum without its stored term, such as positions", "layers.0.norm"),
    "heads": ("head-order", "its heads joined without a transposition", "layers.0.linear"),
    "unused-norm": ("missing-layer", "read before its norm", "layers.0.linear"),
    "no-activation": ("activation", "no activation in the place of Relu", "layers.0.act"),
    "dropped": ("missing-layer", "without the layers between", "norm"),
}
"""Mistakes: the mismatch, words of the cause, and the first tensor that is wrong."""


class Norm(torch.nn.Module):
    """An RMS norm."""

    def __init__(self, fault=""):
        super().__init__()
        self.weight, self.fault = torch.nn.Parameter(torch.rand(24) + 0.5), fault

    def forward(self, x):
        x = x - x.mean(-1, keepdim=True) if self.fault == "mean" else x
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Layer(torch.nn.Module):
    """A norm, a dense layer of split heads, and a residual."""

    def __init__(self, fault=""):
        super().__init__()
        self.norm, self.linear, self.fault = Norm(fault), torch.nn.Linear(24, 24), fault
        self.act = torch.nn.Identity() if fault == "no-activation" else torch.nn.ReLU()

    def forward(self, x, norm):
        if self.fault == "post-norm":
            return self.norm(x + self.act(self.linear(self._joined(x))))
        if self.fault == "unused-norm":
            return x + self.act(self.linear(self._joined(x))) + 0 * self.norm(x)
        y = x if self.fault == "no-norm" else (norm if self.fault == "other-norm" else self.norm)(x)
        out = self.act(self.linear(self._joined(y)))
        return (y if self.fault == "residual-normed" else x) + out

    def _joined(self, y):
        heads = y.view(2, 5, 3, 8).transpose(1, 2).tanh()
        return heads.reshape(2, 5, 24) if self.fault == "heads" else heads.transpose(1, 2).reshape(2, 5, 24)


class Net(torch.nn.Module):
    """Three layers behind positions."""

    def __init__(self, fault=""):
        super().__init__()
        torch.manual_seed(0)
        self.fault = fault
        inner = "" if fault in {"dropped", "no-places", "no-last-norm"} else fault
        self.layers = torch.nn.ModuleList(Layer(inner if i == 0 else "") for i in range(3))
        self.norm = Norm()
        self.places = torch.nn.Parameter(torch.randn(5, 24))

    def forward(self, x):
        x = x if self.fault == "no-places" else x + self.places
        for layer in self.layers[: 1 if self.fault == "dropped" else 3]:
            x = layer(x, self.layers[1].norm)
        return x if self.fault == "no-last-norm" else self.norm(x)


@pytest.fixture(scope="module")
def original():
    return netweave.load(Net(), input_shapes={"x": (2, 5, 24)})


@pytest.fixture(scope="module")
def state_space():
    return netweave.load(StateSpace(), input_shapes={"x": (2, 16, 6)})


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_mistakes_in_how_layers_are_put_together_are_named(original, tmp_path, fault):
    port = Net(fault).eval()
    x = torch.randn(2, 5, 24, generator=torch.Generator().manual_seed(1))
    with torch.no_grad(), netweave.capture(port) as dump:
        port(x)
    dump.save(tmp_path / "dump.npz")
    comparison = netweave.compare(original, tmp_path / "dump.npz")
    (finding,) = comparison.findings
    mismatch, words, first = FAULTS[fault]
    assert (finding.mismatch, finding.layer_b) == (mismatch, first)
    assert words in finding.cause


STATE_FAULTS = {
    "flipped": ("weights", "filters flipped", "state"),
    "no-gate": ("missing-term", "a product without its factor", "out"),
    "no-skip": ("missing-term", "a sum without", "out"),
    "exchanged": ("input-order", "parts 1 and 2 of", "state"),
    "no-softplus": ("activation", "no activation in the place of Softplus", "out"),
}


class StateSpace(torch.nn.Module):
    """A gated state space of one state for each feature, with its loop over steps."""

    def __init__(self, fault=""):
        super().__init__()
        torch.manual_seed(0)
        self.both, self.conv = torch.nn.Linear(6, 12), torch.nn.Conv1d(6, 6, 3, groups=6)
        self.state, self.out = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)
        self.skip, self.fault = torch.nn.Parameter(torch.rand(6) + 0.5), fault

    def forward(self, x):
        inner, gate = self.both(x).chunk(2, -1)
        if self.fault == "exchanged":
            inner, gate = gate, inner
        weight = self.conv.weight.flip(-1) if self.fault == "flipped" else self.conv.weight
        padded = torch.nn.functional.pad(inner.mT, (2, 0))
        inner = torch.nn.functional.conv1d(padded, weight, self.conv.bias, groups=6).mT
        step = self.state(inner)
        step = step if self.fault == "no-softplus" else torch.nn.functional.softplus(step)
        h, rows = torch.zeros_like(x[:, 0]), []
        for i in range(x.shape[1]):
            h = torch.exp(-step[:, i]) * h + step[:, i] * inner[:, i]
            rows.append(h)
        y = torch.stack(rows, 1)
        y = y if self.fault == "no-skip" else y + inner * self.skip
        return self.out(y if self.fault == "no-gate" else y * torch.nn.functional.silu(gate))


@pytest.mark.slow
@pytest.mark.parametrize("fault", STATE_FAULTS)
def test_mistakes_in_state_spaces_are_named(state_space, tmp_path, fault):
    x = torch.randn(2, 16, 6, generator=torch.Generator().manual_seed(1))
    port = StateSpace(fault)
    with torch.no_grad(), netweave.capture(port) as dump:
        port(x)
    dump.save(tmp_path / "dump.npz")
    comparison = netweave.compare(state_space, tmp_path / "dump.npz")
    (finding,) = comparison.findings
    mismatch, words, first = STATE_FAULTS[fault]
    assert (finding.mismatch, finding.layer_b) == (mismatch, first)
    assert words in finding.cause


@pytest.mark.parametrize(("theta", "length"), [(500_000.0, 64), (500_000.0, 8192), (10_000.0, 256)])
@pytest.mark.parametrize("count", [8, 64])
def test_the_scaling_of_rotary_frequencies_is_told_from_them_alone(theta, length, count):
    def llama3(plain):  # Llama 3.1's own rule: factor 8, low 1, high 4
        smooth = np.clip((length * plain / (2 * np.pi) - 1) / 3, 0, 1)
        return (1 - smooth) * plain / 8 + smooth * plain

    own = theta ** (-np.arange(count) / count)
    known = _Frequencies.behind(llama3(own))
    if known is None:  # no frequency lies between the two bounds, so that these are not known
        assert not np.any((own * length > 2 * np.pi) & (own * length < 8 * np.pi))
        return
    assert known.is_scaled
    assert known.theta == pytest.approx(theta)
    for other, pairs in ((10_000.0, count), (theta, 2 * count), (1e6, count // 2)):
        plain = other ** (-np.arange(pairs) / pairs)
        assert np.allclose(known.of(pairs, theta=other), llama3(plain), rtol=1e-3)
    assert not _Frequencies.behind(own).is_scaled
