"""A tiny ResNet of Transformers, and mistakes that are planted in a copy of it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.decoders.encoders import Mistake


class Logits(nn.Module):
    """A model of Transformers that gives its logits alone."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        logits: torch.Tensor = self.model(image).logits
        return logits


class Changed(nn.Module):
    """A module in the place of another, with its input or its output changed, and under its name."""

    def __init__(self, inner: nn.Module, before: Callable[[Any], Any], after: Callable[[Any], Any]) -> None:
        super().__init__()
        self.inner, self.before, self.after = [inner], before, after

    def forward(self, x: torch.Tensor) -> Any:
        """Return the changed output."""
        return self.after(self.inner[0](self.before(x)))


def _same(x: Any) -> Any:
    return x


def original() -> Logits:
    """Return a tiny model with drawn weights, statistics among them."""
    import transformers as hf

    sizes = {"embedding_size": 16, "hidden_sizes": [16, 24], "depths": [2, 2], "layer_type": "basic"}
    net = Logits(hf.ResNetForImageClassification(hf.ResNetConfig(num_labels=10, **sizes))).eval()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for name, x in net.state_dict().items():
            noise = torch.randn(x.shape, generator=generator)
            if name.endswith("running_var"):
                x.copy_(0.5 + noise.abs())
            elif x.ndim == 1:
                x.copy_(0.3 * noise + float(name.endswith("normalization.weight")))
            elif x.ndim:
                x.copy_(1.5 * noise / x[0].numel() ** 0.5)
    return net


def _at(path: str, **settings: Any) -> Callable[[nn.Module], None]:
    """Return a change of settings of the modules whose names end in a path."""

    def change(net: nn.Module) -> None:
        for name, module in net.named_modules():
            if name.endswith(path):
                for key, value in settings.items():
                    setattr(module, key, value)

    return change


def _replaced(path: str, of: Callable[[nn.Module], nn.Module]) -> Callable[[nn.Module], None]:
    """Return a change that puts another module in the place of one."""

    def change(net: nn.Module) -> None:
        net.set_submodule(path, of(net.get_submodule(path)))

    return change


def _before(path: str, function: Callable[[Any], Any]) -> Callable[[nn.Module], None]:
    return _replaced(path, lambda module: Changed(module, function, _same))


def _weights(path: str, function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[nn.Module], None]:
    def change(net: nn.Module) -> None:
        weight = net.get_parameter(path)
        weight.data = function(weight.data.clone()).contiguous()

    return change


BLOCK = "model.resnet.encoder.stages.1.layers.0"
STEM = "model.resnet.embedder.embedder"


def _padded_at_the_end(conv: nn.Module) -> nn.Module:
    conv.padding = (0, 0)  # type: ignore[assignment]
    return Changed(conv, lambda x: functional.pad(x, (0, 1, 0, 1)), _same)


CHANGES: dict[str, tuple[Callable[[nn.Module], None], str]] = {
    "eps": (_at("normalization", eps=1e-2), r"eps"),
    "batch-statistics": (_at(f"{STEM}.normalization", training=True), r"statistics"),
    "pool-padding": (_at("embedder.pooler", padding=0), r"pad"),
    "pool-ceil": (_at("embedder.pooler", ceil_mode=True), r"round|ceil"),
    "average-pool": (
        _replaced("model.resnet.embedder.pooler", lambda _: nn.AvgPool2d(3, 2, 1)),
        r"(?i)average|mean|maximum",
    ),
    "same-padding": (_replaced(f"{BLOCK}.layer.0.convolution", _padded_at_the_end), r"pad"),
    "flipped": (_weights(f"{STEM}.convolution.weight", lambda w: w.flip(2, 3)), r"flip"),
    "height-width": (_weights(f"{BLOCK}.layer.1.convolution.weight", lambda w: w.mT), r"swap|height"),
    "channels": (_before(f"{STEM}.convolution", lambda x: x.flip(1)), r"revers|RGB|BGR"),
    "leaky": (_replaced(f"{STEM}.activation", lambda _: nn.LeakyReLU(0.1)), r"Leaky"),
    "no-activation": (_replaced(f"{BLOCK}.layer.0.activation", lambda _: nn.Identity()), r"no activation"),
    "no-shortcut": (
        _replaced(f"{BLOCK}.shortcut", lambda module: Changed(module, _same, lambda x: 0 * x)),
        r"without|lacks|residual",
    ),
    "no-bias": (_weights("model.classifier.1.bias", lambda b: 0 * b), r"bias"),
    "no-norm": (_replaced(f"{BLOCK}.layer.1.normalization", lambda _: nn.Identity()), r"(?i)norm"),
    "stride": (
        _replaced(
            f"{BLOCK}.layer.0.convolution",
            lambda conv: Changed(_strided(conv, 1), _same, lambda x: x[..., 1::2, 1::2]),
        ),
        r"strid|pad|place|phase",
    ),
}  # fmt: skip
"""Mistakes: the change of a copy of the net, and what must be said of it."""


def _strided(conv: nn.Module, stride: int) -> nn.Module:
    conv.stride = (stride, stride)  # type: ignore[assignment]
    return conv


def wrong(net: Logits, mistake: str) -> Logits:
    """Return a copy of a net with a mistake."""
    copied = copy.deepcopy(net)
    if mistake:
        CHANGES[mistake][0](copied)
    return copied


MISTAKES = {name: Mistake("", "", "", words) for name, (_, words) in CHANGES.items()}
