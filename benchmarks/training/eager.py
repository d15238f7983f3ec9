"""The nets as people write them for PyTorch, with their losses; three are those of ``torch_speed``."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.torch_speed import eager


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
    """A net of ``torch_speed`` with a loss behind its scores."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """Return the loss."""
        return functional.cross_entropy(self.net(x), labels)


def vgg16() -> nn.Module:
    """Return VGG-16 without its softmax."""
    net = eager.VGG16()
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


class GoogLeNet(nn.Module):
    """BVLC's GoogLeNet with its three losses."""

    SIDES = (3, 6)
    """The blocks, counted with the poolings between them, behind which the side branches go off."""

    def __init__(self) -> None:
        super().__init__()
        self.net = eager.GoogLeNet()
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
    "GoogLeNet": GoogLeNet,
    "VGG-16": vgg16,
    "ResNet-50": lambda: Scored(eager.ResNet50()),
}
