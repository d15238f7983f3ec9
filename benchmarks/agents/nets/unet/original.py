"""A U-net for pictures (N, 1, H, W) with sides from 12 on: a fine and a coarse mask, (N, 2, H, W)."""

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

WIDTH = 8


class Double(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1, padding_mode="reflect")
        self.norm = nn.GroupNorm(4, outputs, eps=1e-5)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)

    def forward(self, x):
        x = F.leaky_relu(self.norm(self.conv1(x)), 0.2)
        return F.leaky_relu(self.conv2(x), 0.2)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = Double(1, WIDTH)
        self.down2 = Double(WIDTH, 2 * WIDTH)
        self.middle = Double(2 * WIDTH, 4 * WIDTH)
        self.up2 = nn.ConvTranspose2d(4 * WIDTH, 2 * WIDTH, 3, stride=2, padding=1, output_padding=1)
        self.join2 = Double(4 * WIDTH, 2 * WIDTH)
        self.up1 = nn.ConvTranspose2d(2 * WIDTH, WIDTH, 2, stride=2)
        self.join1 = Double(2 * WIDTH, WIDTH)
        self.coarse = nn.Conv2d(2 * WIDTH, 1, 1)
        self.fine = nn.Conv2d(WIDTH, 1, 1)

    def forward(self, x):
        height, width = x.shape[2:]
        x = F.pad(x, (0, -width % 4, 0, -height % 4))
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.middle(F.avg_pool2d(b, 2))
        b = self.join2(torch.cat([b, self.up2(c)], 1))
        a = self.join1(torch.cat([a, self.up1(b)], 1))
        coarse = F.interpolate(self.coarse(b), scale_factor=2, mode="bilinear", align_corners=False)
        masks = torch.cat([torch.sigmoid(self.fine(a)), torch.sigmoid(coarse)], 1)
        return masks[:, :, :height, :width]


def load(path):
    net = Net()
    net.load_state_dict(load_file(path))
    return net.eval()


def run(net, images):
    with torch.no_grad():
        return net(torch.from_numpy(images)).numpy()
