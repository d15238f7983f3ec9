"""The nets as people write them for PyTorch, run eagerly, with their losses.

Three bear the names of Caffe's layers.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Named(nn.Module):
    """Modules by the names of Caffe's layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleDict()

    def put(self, name: str, module: nn.Module) -> nn.Module:
        """Add a module."""
        self.layers[name] = module
        return module


class VGG16(Named):
    """Simonyan and Zisserman's net D."""

    def __init__(self) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        channels = 3
        for stage, (width, depth) in enumerate([(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)], 1):
            for number in range(1, depth + 1):
                conv = nn.Conv2d(channels, width, 3, padding=1)
                parts += [self.put(f"conv{stage}_{number}", conv), nn.ReLU(inplace=True)]
                channels = width
            parts.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*parts)
        self.classifier = nn.Sequential(
            nn.Flatten(),
            self.put("fc6", nn.Linear(512 * 7 * 7, 4096)),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            self.put("fc7", nn.Linear(4096, 4096)),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            self.put("fc8", nn.Linear(4096, 1000)),
            nn.Softmax(1),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the probabilities."""
        return self.classifier(self.features(x))


class Inception(nn.Module):
    """One block of GoogLeNet."""

    def __init__(self, net: Named, name: str, channels: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        one, three_in, three, five_in, five, pooled = widths

        def unit(layer: str, before: int, after: int, size: int) -> nn.Sequential:
            conv = nn.Conv2d(before, after, size, padding=size // 2)
            return nn.Sequential(net.put(f"{name}/{layer}", conv), nn.ReLU(inplace=True))

        self.one = unit("1x1", channels, one, 1)
        self.three = nn.Sequential(unit("3x3_reduce", channels, three_in, 1), unit("3x3", three_in, three, 3))
        self.five = nn.Sequential(unit("5x5_reduce", channels, five_in, 1), unit("5x5", five_in, five, 5))
        self.pooled = nn.Sequential(nn.MaxPool2d(3, 1, padding=1), unit("pool_proj", channels, pooled, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the four branches, joined."""
        return torch.cat([self.one(x), self.three(x), self.five(x), self.pooled(x)], 1)


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


class GoogLeNet(Named):
    """BVLC's GoogLeNet, without the two side branches."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            self.put("conv1/7x7_s2", nn.Conv2d(3, 64, 7, 2, 3)),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            nn.LocalResponseNorm(5),
            self.put("conv2/3x3_reduce", nn.Conv2d(64, 64, 1)),
            nn.ReLU(inplace=True),
            self.put("conv2/3x3", nn.Conv2d(64, 192, 3, padding=1)),
            nn.ReLU(inplace=True),
            nn.LocalResponseNorm(5),
            nn.MaxPool2d(3, 2, ceil_mode=True),
        )
        parts: list[nn.Module] = []
        for name, (channels, widths) in BLOCKS.items():
            parts.append(Inception(self, f"inception_{name}", channels, widths))
            if name in {"3b", "4e"}:
                parts.append(nn.MaxPool2d(3, 2, ceil_mode=True))
        self.blocks = nn.Sequential(*parts)
        self.head = nn.Sequential(
            nn.AvgPool2d(7),
            nn.Flatten(),
            nn.Dropout(0.4),
            self.put("loss3/classifier", nn.Linear(1024, 1000)),
            nn.Softmax(1),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the probabilities."""
        return self.head(self.blocks(self.stem(x)))


class Bottleneck(nn.Module):
    """One block of ResNet-50."""

    def __init__(self, net: Named, name: str, before: int, width: int, stride: int) -> None:
        super().__init__()
        after = 4 * width

        def unit(branch: str, channels: int, num: int, size: int, step: int) -> nn.Sequential:
            conv = nn.Conv2d(channels, num, size, step, size // 2, bias=False)
            norm = nn.BatchNorm2d(num)
            key = f"{name}_branch{branch}"
            return nn.Sequential(net.put(f"res{key}", conv), net.put(f"bn{key}", norm))

        self.shortcut = unit("1", before, after, 1, stride) if before != after else None
        self.first = unit("2a", before, width, 1, stride)
        self.second = unit("2b", width, width, 3, 1)
        self.third = unit("2c", width, after, 1, 1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of the branch and the shortcut."""
        y = self.third(self.relu(self.second(self.relu(self.first(x)))))
        return self.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class ResNet50(Named):
    """He and others' net, with the stride in the first convolution of a block, as in Caffe."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            self.put("conv1", nn.Conv2d(3, 64, 7, 2, 3)),
            self.put("bn_conv1", nn.BatchNorm2d(64)),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, ceil_mode=True),
        )
        parts: list[nn.Module] = []
        before = 64
        for stage, depth in enumerate((3, 4, 6, 3), 2):
            width = 64 << (stage - 2)
            for block in range(depth):
                stride = 2 if block == 0 and stage > 2 else 1
                parts.append(Bottleneck(self, f"{stage}{chr(ord('a') + block)}", before, width, stride))
                before = 4 * width
        self.blocks = nn.Sequential(*parts)
        self.head = nn.Sequential(nn.AvgPool2d(7), nn.Flatten(), self.put("fc1000", nn.Linear(2048, 1000)))

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores."""
        return self.head(self.blocks(self.stem(x)))


class AlexNet(nn.Module):
    """BVLC's AlexNet."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 96, 11, 4),
            nn.ReLU(inplace=True),
            nn.LocalResponseNorm(5),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            nn.Conv2d(96, 256, 5, padding=2, groups=2),
            nn.ReLU(inplace=True),
            nn.LocalResponseNorm(5),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            nn.Conv2d(256, 384, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 384, 3, padding=1, groups=2),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, 3, padding=1, groups=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, ceil_mode=True),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(256 * 6 * 6, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, 1000),
        )

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """Return the loss."""
        return functional.cross_entropy(self.classifier(self.features(x)), labels)


class Scored(nn.Module):
    """A net with a loss behind its scores."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """Return the loss."""
        return functional.cross_entropy(self.net(x), labels)


def vgg16() -> nn.Module:
    """Return VGG-16 without its softmax."""
    net = VGG16()
    net.classifier = net.classifier[:-1]
    return Scored(net)


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


class GoogLeNetWithLosses(nn.Module):
    """BVLC's GoogLeNet with its three losses."""

    SIDES = (3, 6)
    """The blocks, counted with the poolings between them, behind which the side branches go off."""

    def __init__(self) -> None:
        super().__init__()
        self.net = GoogLeNet()
        self.net.head = self.net.head[:-1]
        self.sides = nn.ModuleList([Side(512), Side(528)])

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """Return the sum of the losses."""
        x = self.net.stem(x)
        losses = []
        for number, block in enumerate(self.net.blocks):
            x = block(x)
            if number in self.SIDES:
                scores = self.sides[self.SIDES.index(number)](x)
                losses.append(0.3 * functional.cross_entropy(scores, labels))
        return torch.stack([*losses, functional.cross_entropy(self.net.head(x), labels)]).sum()


MODULES = {
    "AlexNet": AlexNet,
    "GoogLeNet": GoogLeNetWithLosses,
    "VGG-16": vgg16,
    "ResNet-50": lambda: Scored(ResNet50()),
}
