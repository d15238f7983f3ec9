"""Small nets with what exporters rewrite: BatchNorm, squeeze and excitation, gates, attention."""

import torch
from torch import nn
from torch.nn import functional


class Residual(nn.Module):
    def __init__(self, channels, made, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, made, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(made)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(made, made, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(made)
        self.down = nn.Sequential(nn.Conv2d(channels, made, 1, stride, bias=False), nn.BatchNorm2d(made))

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + self.down(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = nn.Sequential(Residual(3, 8), Residual(8, 8, 2))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(8, 10)

    def forward(self, x):
        x = functional.max_pool2d(self.layer1(x), 3, 2, ceil_mode=True)
        return self.fc(self.avgpool(x).view(x.size(0), -1))


class Mobile(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish())
        self.depth = nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1, groups=16, bias=False), nn.BatchNorm2d(16))
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 4, 1), nn.ReLU(), nn.Conv2d(4, 16, 1), nn.Hardsigmoid()
        )
        self.fc = nn.Sequential(nn.Dropout(0.2), nn.Linear(16, 5))

    def forward(self, x):
        x = functional.hardswish(self.depth(self.stem(x)))
        x = x * self.squeeze(x)
        return functional.log_softmax(self.fc(x.mean([2, 3])), dim=1)


class Twice(nn.Module):
    """One layer called twice in a row, and again."""

    def __init__(self):
        super().__init__()
        self.shared = nn.Linear(6, 6)

    def forward(self, x):
        x = self.shared(self.shared(x))
        return self.shared(torch.relu(x))


class Gates(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 8, num_layers=2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(16, 8, batch_first=True)
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        return self.fc(self.gru(self.lstm(x)[0])[1][-1])


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")

    def forward(self, x):
        return self.layer(self.embed(x)).mean(1)


def make():
    return Twice()
