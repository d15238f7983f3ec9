"""Mistakes of how layers are put together, named from a dump alone."""

from __future__ import annotations

import pytest

import netweave

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


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_mistakes_in_how_layers_are_put_together_are_named(tmp_path, fault):
    original = netweave.load(Net(), input_shapes={"x": (2, 5, 24)})
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
