"""A net of convolutions for pictures (N, 3, H, W) of any size from 20 on; it returns log probabilities."""

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

WIDTH = 16
CLASSES = 10


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, WIDTH, 5, stride=2, padding=2)
        self.conv2 = nn.Conv2d(WIDTH, 2 * WIDTH, 3, padding=1, groups=2)
        self.conv3 = nn.Conv2d(2 * WIDTH, 2 * WIDTH, 3, padding=2, dilation=2)
        self.fc1 = nn.Linear(2 * WIDTH * 16, 64)
        self.fc2 = nn.Linear(64, CLASSES)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 3, 2, ceil_mode=True)
        x = F.local_response_norm(x, 5, alpha=0.01, beta=0.75, k=1.0)
        x = F.leaky_relu(self.conv2(x), 0.1)
        x = F.avg_pool2d(x, 3, 2, padding=1, count_include_pad=False)
        x = F.leaky_relu(self.conv3(x), 0.1)
        x = F.adaptive_avg_pool2d(x, 4).flatten(1)
        x = F.elu(self.fc1(x))
        return F.log_softmax(self.fc2(x), 1)


def load(path):
    net = Net()
    net.load_state_dict(load_file(path))
    return net.eval()


def run(net, images):
    with torch.no_grad():
        return net(torch.from_numpy(images)).numpy()
