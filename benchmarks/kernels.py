"""Kernels of a training step against others that compute the same, one layer at a time.

::

    python -m benchmarks.kernels [--rounds N] [--only NAME]

Shown is the processor time of one thread in ms, so that other work on the machine disturbs little: the median
and the quartiles of rounds in which all candidates have their turn, in an order drawn anew, after something
else has gone through the caches. Shapes are those of ResNet-50 and VGG-16, batch 8, channels last in memory.

- ``pointwise``: convolutions with a window of one, forward, to the images and to the weights, by oneDNN and
  as products of matrices (``runtime/backends/torch/elementwise.py``)
- ``batch norm``: batch normalisation and rectifier by torch's kernels, one after another, and in blocks that
  stay in the cache, by two passes each way
- ``relu``: convolution and rectifier by two kernels or by one of oneDNN's; the rectifier's gradient in a new
  tensor or over the old one
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from netweave.training.process import keep_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

Candidates = dict[str, Callable[[], object]]

BATCH = 8
EPSILON = 1e-5
BLOCK_ELEMENTS = 1 << 16
ATEN = torch.ops.aten

POINTWISE = (
    (64, 256, 56, 1),
    (256, 64, 56, 1),
    (256, 512, 56, 2),
    (128, 512, 28, 1),
    (512, 128, 28, 1),
    (512, 1024, 28, 2),
    (256, 1024, 14, 1),
    (1024, 256, 14, 1),
    (1024, 2048, 14, 2),
    (512, 2048, 7, 1),
    (2048, 512, 7, 1),
)
"""Channels before and behind, height and width, and stride."""

NORMALISED = ((64, 112), (64, 56), (256, 56), (128, 28), (512, 28), (1024, 14), (2048, 7))
"""Channels, height and width."""

RECTIFIED = ((64, 64, 224), (64, 128, 112), (256, 256, 56), (512, 512, 14))
"""Channels before and behind, height and width."""


def images(channels: int, size: int) -> Tensor:
    """Draw images."""
    return torch.randn(BATCH, channels, size, size).contiguous(memory_format=torch.channels_last)


def rows(x: Tensor) -> Tensor:
    """Return images as pixels by channels."""
    return x.movedim(1, -1).reshape(-1, x.shape[1])


def pointwise(before: int, behind: int, size: int, stride: int) -> dict[str, Candidates]:
    """Return the passes of a convolution with a window of one."""
    x, w = images(before, size), torch.randn(behind, before, 1, 1)
    settings = ([stride, stride], [0, 0], [1, 1], False, [0, 0], 1)
    dy, matrix = images(behind, -(-size // stride)), w.flatten(1)

    def by_onednn(*wanted: bool) -> object:
        return ATEN.convolution_backward(dy, x, w, None, *settings, wanted)

    def taken(of: Tensor) -> Tensor:
        return of[:, :, ::stride, ::stride]

    def to_images() -> Tensor:
        if stride == 1:
            return rows(dy) @ matrix
        dx = torch.zeros_like(x)
        place = taken(dx).movedim(1, -1)
        return place.copy_((rows(dy) @ matrix).view(place.shape))

    return {
        "forward": {
            "oneDNN": lambda: torch.convolution(x, w, None, *settings),
            "product": lambda: rows(taken(x)) @ matrix.t(),
        },
        "images": {"oneDNN": lambda: by_onednn(True, False, False), "product": to_images},
        "weights": {
            "oneDNN": lambda: by_onednn(False, True, False),
            "product": lambda: rows(dy).t() @ rows(taken(x)),
        },
    }


def blocks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Yield blocks of rows, short rows side by side."""
    channels = tensors[0].shape[1]
    width = max(channels, 1024)
    views = (rows(tensor).view(-1, width).split(max(1, BLOCK_ELEMENTS // width)) for tensor in tensors)
    return zip(*views, strict=True)


def forward_in_blocks(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Normalise and rectify; torch's own pass finds mean and variance."""
    mean, variance = ATEN.batch_norm_update_stats(x, None, None, 0.0)
    count = max(1, 1024 // len(scale))
    factor = scale * (variance + EPSILON).rsqrt()
    offset, factor = (shift - mean * factor).repeat(count), factor.repeat(count)
    y = torch.empty_like(x)
    for part, out in blocks(x, y):
        torch.addcmul(offset, part, factor, out=out).relu_()
    return y


def backward_in_blocks(
    dy: Tensor, y: Tensor, x: Tensor, scale: Tensor, mean: Tensor, inverse: Tensor
) -> Tensor:
    """Return the gradient of the images; those of scale and shift are made on the way."""
    dx, channels = torch.empty_like(x), len(scale)
    count = max(1, 1024 // channels)
    origin = mean.repeat(count)
    sums, products = [], []
    for part, above, made, dz in blocks(x, dy, y, dx):
        ATEN.threshold_backward.grad_input(above, made, 0, grad_input=dz)
        sums.append(dz.sum(0))
        products.append(torch.sub(part, origin).mul_(dz).sum(0))
    size = x.numel() / channels
    total, product = (torch.stack(found).sum(0).view(count, -1).sum(0) for found in (sums, products))
    factor = scale * inverse
    slope = -factor * inverse.square() * product / size
    offset = (-factor * total / size - mean * slope).repeat(count)
    slope, factor = slope.repeat(count), factor.repeat(count)
    for part, dz in blocks(x, dx):
        torch.addcmul(torch.addcmul(offset, part, slope), dz, factor, out=dz)
    return dx


def batch_norm(channels: int, size: int) -> dict[str, Candidates]:
    """Return both passes of a normalisation and a rectifier."""
    x, dy = images(channels, size), images(channels, size)
    scale, shift = torch.rand(channels) + 0.5, torch.randn(channels)
    y, mean, inverse = torch.native_batch_norm(x, scale, shift, None, None, True, 0.0, EPSILON)
    y.relu_()

    def forward() -> Tensor:
        return torch.native_batch_norm(x, scale, shift, None, None, True, 0.0, EPSILON)[0].relu_()

    def backward() -> Tensor:
        dz, wanted = ATEN.threshold_backward(dy, y, 0), [True, True, True]
        found: tuple[Tensor, ...] = ATEN.native_batch_norm_backward(
            dz, x, scale, None, None, mean, inverse, True, EPSILON, wanted
        )
        return found[0]

    blocked_forward = partial(forward_in_blocks, x, scale, shift)
    blocked_backward = partial(backward_in_blocks, dy, y, x, scale, mean, inverse)
    torch.testing.assert_close(blocked_forward(), y, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(blocked_backward(), backward(), rtol=1e-3, atol=1e-4)
    return {
        "forward": {"kernels": forward, "blocks": blocked_forward},
        "backward": {"kernels": backward, "blocks": blocked_backward},
    }


def relu(before: int, behind: int, size: int) -> dict[str, Candidates]:
    """Return a rectifier behind a convolution, and its gradient."""
    x, w, b = images(before, size), torch.randn(behind, before, 3, 3), torch.randn(behind)
    y, dy = images(behind, size), images(behind, size)
    steps, joined = [1, 1], torch.ops.mkldnn._convolution_pointwise
    return {
        "forward": {
            "two": lambda: torch.convolution(x, w, b, steps, steps, steps, False, [0, 0], 1).relu_(),
            "one": lambda: joined(x, w, b, steps, steps, steps, 1, "relu", [], ""),
        },
        "gradient": {
            "new": lambda: ATEN.threshold_backward(dy, y, 0),
            "over": lambda: ATEN.threshold_backward.grad_input(dy, y, 0, grad_input=dy),
        },
    }


GROUPS: dict[str, tuple[Callable[..., dict[str, Candidates]], tuple[tuple[int, ...], ...]]] = {
    "pointwise": (pointwise, POINTWISE),
    "batch norm": (batch_norm, NORMALISED),
    "relu": (relu, RECTIFIED),
}
"""What is measured, by name: what makes the candidates of a layer, and the layers."""


def measure(candidates: Candidates, rounds: int, other: Tensor) -> dict[str, list[float]]:
    """Return median and quartiles in ms."""
    found: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds + 1):
        for name in random.sample(list(candidates), len(candidates)):
            other.fill_(1.0)
            begin = time.thread_time()
            candidates[name]()
            found[name].append(time.thread_time() - begin)
    return {name: list(np.percentile(times[1:], [50, 25, 75]) * 1e3) for name, times in found.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", choices=GROUPS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    keep_memory()
    other = torch.empty(1 << 23)
    for title, (candidates, layers) in GROUPS.items():
        if options.only not in {None, title}:
            continue
        print(f"{title}: processor time of one thread in ms")
        for layer in layers:
            for step, rivals in candidates(*layer).items():
                shown = measure(rivals, options.rounds, other)
                row = "  ".join(f"{name} {m:6.2f} ({a:.2f} to {b:.2f})" for name, (m, a, b) in shown.items())
                print(f"  {layer!s:22} {step:9} {row}", flush=True)


if __name__ == "__main__":
    main()
