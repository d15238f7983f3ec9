"""Neural style transfer: draw a digit with the strokes of another picture (Gatys et al. 2015).

Both manners of programming, mixed. Declared, as symbols: the features of a net, their Gram matrices, how
far these are from those wanted. By hand, as a loop of torch: the picture that is learnt, how smooth it
should be, and each step. The net is a small one that learns digits first, so that nothing need be at hand;
with a trained VGG it is the same program.

Run it with ``python -m examples.style.demo`` in the folder above ``examples``; it writes ``style.png``: the
digit, the strokes, and the digit drawn with them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
import torch
from sklearn.datasets import load_digits

import netweave
from netweave import symbol as sym
from netweave.backends.torch import TorchNet

if TYPE_CHECKING:
    from netweave.symbol import Symbol

HERE = Path(__file__).parent
SIZE = 32
"""Height and width of all pictures."""

STYLE = ("relu1_output", "relu2_output")
"""Values whose correlations are the style; the last one itself is the content."""


def classifier() -> Symbol:
    """Return the net that learns what digits are made of."""
    x = sym.Variable("data")
    for number, width in enumerate((8, 16), 1):
        x = sym.Convolution(x, num_filter=width, kernel=(5, 5), pad=(2, 2), name=f"conv{number}")
        x = sym.Activation(x, act_type="relu", name=f"relu{number}")
        x = sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="avg", name=f"pool{number}")
    x = sym.FullyConnected(sym.Flatten(x), num_hidden=10, name="classes")
    return sym.SoftmaxOutput(x, name="softmax")


def gram(x: Symbol, sizes: tuple[int, ...], name: str) -> Symbol:
    """Return how often channels are active together, whatever the place; sizes are (1, channels, h, w)."""
    flat = sym.Reshape(x, shape=(0, 0, -1))
    return sym._mul_scalar(
        sym.batch_dot(flat, flat, transpose_b=True), scalar=1.0 / np.prod(sizes[2:]), name=name
    )


def judge(net: Symbol) -> Symbol:
    """Return two numbers: how far a picture's style and content are from those wanted.

    The wanted ones are inputs: ``style0``, ``style1``, ``content``.
    """
    internals = net.get_internals()
    values = [internals[name] for name in STYLE]
    sizes = sym.Group(values).infer_shape(data=(1, 1, SIZE, SIZE))[1]
    style = sym.zeros((1,))
    for number, (value, size) in enumerate(zip(values, sizes, strict=True)):
        found = gram(value, size, f"gram{number}")
        wanted = sym.Variable(f"style{number}", shape=(1, size[1], size[1]))
        style = style + sym.mean(sym.square(found - wanted)) / sym.mean(sym.square(wanted))
    wanted = sym.Variable("content", shape=sizes[-1])
    content = sym.mean(sym.square(values[-1] - wanted)) / sym.mean(sym.square(wanted))
    return sym.Group([sym.identity(style, name="style"), sym.identity(content, name="content_error")])


@dataclass
class Transfer:
    """Draws pictures: the net that judges them, and how far it is from what it should be."""

    judging: TorchNet
    wanted: dict[str, torch.Tensor]

    def distances(self, picture: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return how far a picture is from the style and the content."""
        found = self.judging(data=picture, **self.wanted)
        return found["style_output"].sum(), found["content_error_output"].sum()

    def draw(self, start: torch.Tensor, *, steps: int, weight: float, smooth: float) -> torch.Tensor:
        """Return a picture of the content in the style.

        Args:
            start: The picture to start from.
            steps: Steps of descent.
            weight: Of the style beside the content.
            smooth: Weight of the differences of neighbours.
        """
        picture = start.clone().requires_grad_()
        descent = torch.optim.Adam([picture], lr=0.05)
        for _ in range(steps):
            descent.zero_grad()
            style, content = self.distances(picture)
            across, down = picture.diff(dim=3), picture.diff(dim=2)
            (weight * style + content + smooth * (across.square().mean() + down.square().mean())).backward()
            descent.step()
            with torch.no_grad():
                picture.clamp_(0, 1)
        return picture.detach()


def transfer(
    net: Symbol, arrays: dict[str, np.ndarray], content: torch.Tensor, style: torch.Tensor
) -> Transfer:
    """Return what draws one picture's content in another one's style."""
    internals = net.get_internals()
    values = [internals[name] for name in STYLE]
    shape = (1, 1, SIZE, SIZE)
    sizes = sym.Group(values).infer_shape(data=shape)[1]
    grams = [gram(v, s, f"gram{n}") for n, (v, s) in enumerate(zip(values, sizes, strict=True))]
    looking = TorchNet(sym.Group([*grams, values[-1]]).graph(arrays=arrays, data=shape)).eval()
    with torch.no_grad():
        of_style = list(looking(data=style).values())
        of_content = list(looking(data=content).values())
    wanted = {f"style{n}": found for n, found in enumerate(of_style[:-1])} | {"content": of_content[-1]}
    judging = judge(net)
    given = {name: tuple(tensor.shape) for name, tensor in wanted.items()}
    graph = judging.graph(arrays=arrays, data=shape, **given)
    made = TorchNet(graph).eval()
    for tensor in made.params.values():
        tensor.requires_grad_(False)
    return Transfer(made, wanted)


def strokes() -> torch.Tensor:
    """Return the picture whose style is taken: diagonal stripes."""
    y, x = np.mgrid[:SIZE, :SIZE]
    picture = 0.5 + 0.5 * np.sin((x + y) * 0.65)
    return torch.from_numpy(picture.astype(np.float32))[None, None]


def pictures() -> tuple[np.ndarray, np.ndarray]:
    """Return scikit-learn's digits, enlarged, and their labels."""
    found = load_digits()
    images = [cv2.resize(image / 16.0, (SIZE, SIZE)) for image in found.images]
    return np.stack(images)[:, None].astype(np.float32), found.target.astype(np.float32)


def main(steps: int = 300) -> int:
    """Return 0 if the picture has the style and still the content."""
    images, labels = pictures()
    net = classifier()
    module = netweave.Module(net)
    settings = {"learning_rate": 0.01, "momentum": 0.9}
    module.fit(
        images,
        labels,
        num_epoch=4,
        batch_size=50,
        shuffle=True,
        optimizer_params=settings,
        initializer=sym.Initializer("xavier"),
        seed=0,
    )
    print(f"the net knows {module.score(images, labels)['accuracy']:.1%} of the digits")

    content, style = torch.from_numpy(images[3:4].copy()), strokes()
    drawing = transfer(net, module.get_params()[0], content, style)
    made = drawing.draw(content, steps=steps, weight=2.0, smooth=0.3)
    before, after = drawing.distances(content), drawing.distances(made)
    other = drawing.distances(style)
    print(f"style: {float(before[0]):.3f} away at first, {float(after[0]):.3f} in the end")
    print(f"content: {float(other[1]):.3f} away in the strokes alone, {float(after[1]):.3f} in the end")
    row = torch.cat([content, style, made], dim=3)[0, 0].numpy()
    large = cv2.resize((row * 255).astype(np.uint8), None, fx=6, fy=6, interpolation=cv2.INTER_NEAREST)
    cv2.imwrite(str(HERE / "style.png"), large)
    return 0 if after[0] < before[0] / 4 and after[1] < other[1] / 2 else 1


if __name__ == "__main__":
    sys.exit(main())
