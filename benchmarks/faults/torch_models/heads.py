"""Two maps from one trunk, joined at the end: channels in groups, normalisation across channels."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, kernel_size=5, stride=2, padding=2)
        self.relu1 = nn.ReLU()
        self.norm1 = nn.LocalResponseNorm(5, alpha=0.5, beta=0.75, k=1.0)
        self.pool1 = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(8, 12, kernel_size=3, padding=1, groups=2)
        self.bn2 = nn.BatchNorm2d(12, eps=1e-05)
        self.leaky2 = nn.LeakyReLU(negative_slope=0.1)
        self.conv3 = nn.Conv2d(12, 12, kernel_size=3, padding=1, groups=12, bias=False)
        self.bn3 = nn.BatchNorm2d(12, eps=1e-05)
        self.relu3 = nn.ReLU()
        self.conv4 = nn.Conv2d(12, 12, kernel_size=1)
        self.relu4 = nn.ReLU()
        self.pool4 = nn.AvgPool2d(kernel_size=2, stride=2)
        self.mask = nn.Conv2d(12, 6, kernel_size=3, padding=1)
        self.mask_act = nn.Sigmoid()
        self.edge = nn.Conv2d(12, 6, kernel_size=1)
        self.edge_act = nn.ELU(alpha=0.5)

    def forward(self, data):
        x = self.conv1(data)
        x = self.relu1(x)
        x = self.norm1(x)
        x = self.pool1(x)
        x = self.conv2(x)
        x = self.bn2(x)
        x = self.leaky2(x)
        x = self.conv3(x)
        x = self.bn3(x)
        x = self.relu3(x)
        x = self.conv4(x)
        x = self.relu4(x)
        x = self.pool4(x)
        mask = self.mask(x)
        mask = self.mask_act(mask)
        edge = self.edge(x)
        edge = self.edge_act(edge)
        x = torch.cat([mask, edge], dim=1)
        return x
