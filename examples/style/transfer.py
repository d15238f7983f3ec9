"""Neural style transfer (Gatys et al. 2015): the loss as symbols, the picture that is learnt by torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from netweave import symbol as sym
from netweave.runtime.backends.torch import TorchNet

if TYPE_CHECKING:
    from collections.abc import Callable

    from examples.style.features import FeatureNet
    from netweave.formats.mxnet.symbol import Symbol


def gram(x: Symbol, sizes: tuple[int, ...], name: str) -> Symbol:
    """Return how often channels are active together, whatever the place; sizes are (1, channels, h, w)."""
    flat = sym.Reshape(x, shape=(0, 0, -1))
    return sym._mul_scalar(
        sym.batch_dot(flat, flat, transpose_b=True), scalar=1.0 / np.prod(sizes[2:]), name=name
    )


def looked_at(net: FeatureNet, shape: tuple[int, ...]) -> tuple[list[Symbol], Symbol, list[tuple[int, ...]]]:
    """Return the Gram matrices of the style's values, the content's value, and the sizes of all values."""
    values = list(net.values)
    sizes = net.values.infer_shape(data=shape)[1]
    grams = [gram(v, s, f"gram{n}") for n, (v, s) in enumerate(zip(values[:-1], sizes, strict=False))]
    return grams, values[-1], sizes


def distances(net: FeatureNet, shape: tuple[int, ...]) -> Symbol:
    """Return two numbers: how far a picture's style and content are from those wanted.

    The wanted ones are inputs: ``style0``, ``style1``, ..., ``content``. Each layer's distance is relative to
    what is wanted of it, so that no layer counts more because its values are large.
    """
    grams, value, sizes = looked_at(net, shape)
    style = sym.zeros((1,))
    for number, (matrix, size) in enumerate(zip(grams, sizes, strict=False)):
        wanted = sym.Variable(f"style{number}", shape=(1, size[1], size[1]))
        style = style + sym.mean(sym.square(matrix - wanted)) / sym.mean(sym.square(wanted))
    style = sym._div_scalar(style, scalar=float(len(grams)))
    wanted = sym.Variable("content", shape=sizes[-1])
    content = sym.mean(sym.square(value - wanted)) / sym.mean(sym.square(wanted))
    return sym.Group([sym.identity(style, name="style"), sym.identity(content, name="content_error")])


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a drawing is, before one of its steps.

    Attributes:
        step: Steps done.
        style: How far the picture is from the style.
        content: How far it is from the content.
        picture: The picture.
    """

    step: int
    style: float
    content: float
    picture: torch.Tensor


@dataclass
class Transfer:
    """Draws pictures: the net that judges them, and what its values should be."""

    net: FeatureNet
    judging: TorchNet
    wanted: dict[str, torch.Tensor]

    def distances(self, picture: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return how far a picture is from the style and the content."""
        found = self.judging(data=self.net.prepare(picture), **self.wanted)
        return found["style_output"].sum(), found["content_error_output"].sum()

    def draw(
        self,
        start: torch.Tensor,
        *,
        steps: int,
        weight: float,
        smooth: float,
        progress: Callable[[Progress], None] = lambda _: None,
    ) -> torch.Tensor:
        """Return a picture of the content in the style.

        Args:
            start: The picture to start from, (1, 3, height, width) in 0 to 1.
            steps: Steps of descent.
            weight: Of the style beside the content.
            smooth: Weight of the differences of neighbours.
            progress: Called before each step.
        """
        picture = start.clone().requires_grad_()
        descent = torch.optim.Adam([picture], lr=0.02)
        for step in range(steps):
            descent.zero_grad()
            style, content = self.distances(picture)
            progress(Progress(step, float(style.detach()), float(content.detach()), picture.detach()))
            across, down = picture.diff(dim=3), picture.diff(dim=2)
            (weight * style + content + smooth * (across.square().mean() + down.square().mean())).backward()
            descent.step()
            with torch.no_grad():
                picture.clamp_(0, 1)
        return picture.detach()


def recolored(content: torch.Tensor, style: torch.Tensor) -> torch.Tensor:
    """Return the content with the mean and covariance of the style's colours: where a drawing starts."""
    pixels, wanted = (picture[0].flatten(1).double() for picture in (content, style))
    whiten, color = torch.linalg.inv(_root(pixels)), _root(wanted)
    moved = color @ whiten @ (pixels - pixels.mean(1, keepdim=True)) + wanted.mean(1, keepdim=True)
    return moved.reshape(content.shape).to(content.dtype).clamp(0, 1)


def _root(pixels: torch.Tensor) -> torch.Tensor:
    """Return the symmetric root of a covariance."""
    values, vectors = torch.linalg.eigh(torch.cov(pixels) + 1e-6 * torch.eye(3, dtype=pixels.dtype))
    return vectors @ torch.diag(values.sqrt()) @ vectors.T


def transfer(net: FeatureNet, content: torch.Tensor, style: torch.Tensor) -> Transfer:
    """Return what draws one picture's content in another one's style; they may differ in size."""
    shape = tuple(content.shape)
    grams, value = looked_at(net, tuple(style.shape))[0], looked_at(net, shape)[1]
    looking = TorchNet(sym.Group(grams).graph(arrays=net.arrays, data=tuple(style.shape))).eval()
    seeing = TorchNet(value.graph(arrays=net.arrays, data=shape)).eval()
    with torch.no_grad():
        of_style = list(looking(data=net.prepare(style)).values())
        (of_content,) = seeing(data=net.prepare(content)).values()
    wanted = {f"style{n}": matrix for n, matrix in enumerate(of_style)} | {"content": of_content}
    given = {name: tuple(tensor.shape) for name, tensor in wanted.items()}
    judging = TorchNet(distances(net, shape).graph(arrays=net.arrays, data=shape, **given)).eval()
    for tensor in judging.params.values():
        tensor.requires_grad_(False)
    return Transfer(net, judging, wanted)
