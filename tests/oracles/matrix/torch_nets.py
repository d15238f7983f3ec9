"""Modules in PyTorch's words, for the nets that torchvision does not have."""

import torch
from torch import nn


class LeNet(nn.Module):
    """LeNet as MXNet's examples have it: tanh, and max pooling."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 20, 5), nn.Tanh(), nn.MaxPool2d(2),
            nn.Conv2d(20, 50, 5), nn.Tanh(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.classifier = nn.Sequential(nn.Linear(800, 500), nn.Tanh(), nn.Linear(500, 1000))

    def forward(self, x):
        return self.classifier(torch.flatten(self.features(x), 1))


class NIN(nn.Module):
    """Network in Network, as its authors' prototxt has it but for the softmax."""

    def __init__(self):
        super().__init__()
        layers, channels = [], 3
        widths = ((96, 11, 4, 0), (256, 5, 1, 2), (384, 3, 1, 1), (1024, 3, 1, 1))
        for block, (width, kernel, stride, pad) in enumerate(widths):
            last = 1000 if block == len(widths) - 1 else width
            layers += [nn.Conv2d(channels, width, kernel, stride, pad), nn.ReLU()]
            layers += [nn.Conv2d(width, width, 1), nn.ReLU(), nn.Conv2d(width, last, 1), nn.ReLU()]
            layers += [nn.MaxPool2d(3, 2)] if last == width else [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
            channels = width
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)


class Heads(nn.Module):
    """A detection net up to its raw heads: offsets of boxes and sums of classes."""

    def __init__(self, backbone, head):
        super().__init__()
        self.backbone = backbone
        self.head = head

    def forward(self, x):
        found = self.head(list(self.backbone(x).values()))
        return found["bbox_regression"], found["cls_logits"]


class Twice(nn.Sequential):
    """Two convolutions with a rectifier each."""

    def __init__(self, channels, width):
        super().__init__(
            nn.Conv2d(channels, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
        )


class UNet(nn.Module):
    """U-Net with padding."""

    def __init__(self):
        super().__init__()
        widths = (64, 128, 256, 512)
        self.down = nn.ModuleList(Twice(a, b) for a, b in zip((3, *widths), widths, strict=False))
        self.bottom = Twice(512, 1024)
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * width, width, 2, 2) for width in widths)
        self.left = nn.ModuleList(Twice(2 * width, width) for width in widths)
        self.score = nn.Conv2d(64, 2, 1)

    def forward(self, x):
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.bottom(x)
        for level in (3, 2, 1, 0):
            x = self.left[level](torch.cat([skips[level], self.up[level](x)], 1))
        return self.score(x)


class LanguageModel(nn.Module):
    """A language model of two layers of LSTM."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(200, 64)
        self.lstm = nn.LSTM(64, 64, 2, batch_first=True)
        self.decoder = nn.Linear(64, 200)

    def forward(self, x):
        return self.decoder(self.lstm(self.embed(x))[0])
