"""The nets as people write them for PyTorch, run eagerly, with their losses."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


def rectified(before: int, after: int, size: int, **settings: int) -> list[nn.Module]:
    """Return a convolution and the rectifier behind it."""
    return [nn.Conv2d(before, after, size, **settings), nn.ReLU(inplace=True)]


def dense(before: int, after: int) -> list[nn.Module]:
    """Return a dense layer with what people put behind it."""
    return [nn.Linear(before, after), nn.ReLU(inplace=True), nn.Dropout()]


class Scored(nn.Module):
    """A net with a loss behind its scores."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.net = nn.Sequential(*parts)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """Return the loss."""
        return functional.cross_entropy(self.net(x), labels)


def alexnet() -> nn.Module:
    """Return BVLC's AlexNet."""
    pool = nn.MaxPool2d(3, 2, ceil_mode=True)
    return Scored(
        *rectified(3, 96, 11, stride=4), nn.LocalResponseNorm(5), pool,
        *rectified(96, 256, 5, padding=2, groups=2), nn.LocalResponseNorm(5), pool,
        *rectified(256, 384, 3, padding=1),
        *rectified(384, 384, 3, padding=1, groups=2),
        *rectified(384, 256, 3, padding=1, groups=2), pool,
        nn.Flatten(), *dense(256 * 6 * 6, 4096), *dense(4096, 4096), nn.Linear(4096, 1000),
    )  # fmt: skip


def vgg16() -> nn.Module:
    """Return Simonyan and Zisserman's net D."""
    parts: list[nn.Module] = []
    channels = 3
    for width, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            parts += rectified(channels, width, 3, padding=1)
            channels = width
        parts.append(nn.MaxPool2d(2, 2))
    head = [nn.Flatten(), *dense(512 * 7 * 7, 4096), *dense(4096, 4096), nn.Linear(4096, 1000)]
    return Scored(*parts, *head)


class Inception(nn.Module):
    """One block of GoogLeNet."""

    def __init__(self, channels: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        one, three_in, three, five_in, five, pooled = widths
        self.one = nn.Sequential(*rectified(channels, one, 1))
        self.three = nn.Sequential(
            *rectified(channels, three_in, 1), *rectified(three_in, three, 3, padding=1)
        )
        self.five = nn.Sequential(*rectified(channels, five_in, 1), *rectified(five_in, five, 5, padding=2))
        self.pooled = nn.Sequential(nn.MaxPool2d(3, 1, padding=1), *rectified(channels, pooled, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the four branches, joined."""
        return torch.cat([self.one(x), self.three(x), self.five(x), self.pooled(x)], 1)


class Side(nn.Module):
    """A side branch of GoogLeNet."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, 128, 1)
        self.hidden, self.scores = nn.Linear(2048, 1024), nn.Linear(1024, 1000)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores."""
        x = functional.relu(self.conv(functional.avg_pool2d(x, 5, 3)))
        x = functional.relu(self.hidden(x.flatten(1)))
        return self.scores(functional.dropout(x, 0.7, self.training))


BLOCKS = {
    "3a": (192, (64, 96, 128, 16, 32, 32)),
    "3b": (256, (128, 128, 192, 32, 96, 64)),
    "4a": (480, (192, 96, 208, 16, 48, 64)),
    "4b": (512, (160, 112, 224, 24, 64, 64)),
    "4c": (512, (128, 128, 256, 24, 64, 64)),
    "4d": (512, (112, 144, 288, 32, 64, 64)),
    "4e": (528, (256, 160, 320, 32, 128, 128)),
    "5a": (832, (256, 160, 320, 32, 128, 128)),
    "5b": (832, (384, 192, 384, 48, 128, 128)),
}
"""Channels of each block, and widths of its branches."""


class GoogLeNet(nn.Module):
    """BVLC's GoogLeNet with its three losses."""

    SIDES = (3, 6)
    """The blocks, counted with the poolings between them, behind which the side branches go off."""

    def __init__(self) -> None:
        super().__init__()
        pool = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.stem = nn.Sequential(
            *rectified(3, 64, 7, stride=2, padding=3), pool, nn.LocalResponseNorm(5),
            *rectified(64, 64, 1), *rectified(64, 192, 3, padding=1), nn.LocalResponseNorm(5), pool,
        )  # fmt: skip
        parts: list[nn.Module] = []
        for name, (channels, widths) in BLOCKS.items():
            parts.append(Inception(channels, widths))
            if name in {"3b", "4e"}:
                parts.append(pool)
        self.blocks = nn.Sequential(*parts)
        self.head = nn.Sequential(nn.AvgPool2d(7), nn.Flatten(), nn.Dropout(0.4), nn.Linear(1024, 1000))
        self.sides = nn.ModuleList([Side(512), Side(528)])

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """Return the sum of the losses."""
        x = self.stem(x)
        losses = []
        for number, block in enumerate(self.blocks):
            x = block(x)
            if number in self.SIDES:
                scores = self.sides[self.SIDES.index(number)](x)
                losses.append(0.3 * functional.cross_entropy(scores, labels))
        return torch.stack([*losses, functional.cross_entropy(self.head(x), labels)]).sum()


class Bottleneck(nn.Module):
    """One block of ResNet-50."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()

        def unit(channels: int, num: int, size: int, step: int = 1) -> nn.Sequential:
            conv = nn.Conv2d(channels, num, size, step, size // 2, bias=False)
            return nn.Sequential(conv, nn.BatchNorm2d(num))

        after = 4 * width
        self.shortcut = unit(before, after, 1, stride) if before != after else None
        self.first = unit(before, width, 1, stride)
        self.second = unit(width, width, 3)
        self.third = unit(width, after, 1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of the branch and the shortcut."""
        y = self.third(self.relu(self.second(self.relu(self.first(x)))))
        return self.relu(y + (x if self.shortcut is None else self.shortcut(x)))


def resnet50() -> nn.Module:
    """Return He and others' net, with the stride in the first convolution of a block, as in Caffe."""
    stem = [nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    parts: list[nn.Module] = [*stem, nn.MaxPool2d(3, 2, ceil_mode=True)]
    before = 64
    for stage, depth in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(depth):
            parts.append(Bottleneck(before, width, 2 if block == 0 and stage else 1))
            before = 4 * width
    return Scored(*parts, nn.AvgPool2d(7), nn.Flatten(), nn.Linear(2048, 1000))


MODULES = {"AlexNet": alexnet, "GoogLeNet": GoogLeNet, "VGG-16": vgg16, "ResNet-50": resnet50}
