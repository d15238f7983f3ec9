"""A net that makes an image larger, as ``onnx_nets.enhance``: pixel shuffle, deconvolution, resizing."""

from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, kernel_size=3, padding=1)
        self.prelu1 = nn.PReLU(8)
        self.instance = nn.InstanceNorm2d(8, eps=1e-05, affine=True)
        self.conv2 = nn.Conv2d(8, 16, kernel_size=3, padding=1)
        self.shuffle = nn.PixelShuffle(2)
        self.up = nn.ConvTranspose2d(4, 6, kernel_size=3, stride=2, padding=1, output_padding=1)
        self.relu = nn.ReLU()
        self.resize = nn.Upsample(scale_factor=1.5, mode="bilinear", align_corners=False)
        self.conv3 = nn.Conv2d(6, 3, kernel_size=3, padding=1)
        self.image = nn.Sigmoid()

    def forward(self, data):
        x = self.conv1(data)
        x = self.prelu1(x)
        x = self.instance(x)
        x = self.conv2(x)
        x = self.shuffle(x)
        x = self.up(x)
        x = self.relu(x)
        x = self.resize(x)
        x = self.conv3(x)
        x = self.image(x)
        return x
