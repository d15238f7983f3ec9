"""The nets that come with Chainer, as people use them, and a ResNeXt in its words."""

import chainer
import chainer.functions as F  # noqa: N812 (as everybody calls them)
import chainer.links as L  # noqa: N812


class VGG16(L.VGG16Layers):
    """Two stages of VGG-16."""

    def __init__(self):
        super().__init__(pretrained_model=None)

    def forward(self, x):
        made = super().forward(x, layers=["conv3_2", "prob"])
        return made["conv3_2"], made["prob"]


class GoogLeNet(L.GoogLeNet):
    """All classifiers of GoogLeNet, and a block."""

    def __init__(self):
        super().__init__(pretrained_model=None)

    def forward(self, x):
        made = super().forward(x, layers=["inception_4d", "prob", "loss1_fc2", "loss2_fc2"])
        return made["inception_4d"], made["prob"], made["loss1_fc2"], made["loss2_fc2"]


class ResNet50(L.ResNet50Layers):
    """ResNet-50 with its strides where Facebook has them."""

    def __init__(self):
        super().__init__(pretrained_model=None, downsample_fb=True)

    def forward(self, x):
        return super().forward(x)["prob"]


class FineTuned(chainer.Chain):
    """A ResNet-50 whose features go to a classifier of one's own."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.base = L.ResNet50Layers(pretrained_model=None)
            self.fc = L.Linear(None, 7)

    def forward(self, x):
        return self.fc(self.base(x, layers=["pool5"])["pool5"])


class Bottleneck(chainer.Chain):
    """A block of ResNeXt: 32 groups in the middle."""

    def __init__(self, channels, middle, out, stride):
        super().__init__()
        self.projects = stride != 1 or channels != out
        with self.init_scope():
            self.conv1 = L.Convolution2D(channels, middle, 1, nobias=True)
            self.bn1 = L.BatchNormalization(middle)
            self.conv2 = L.Convolution2D(middle, middle, 3, stride, 1, nobias=True, groups=32)
            self.bn2 = L.BatchNormalization(middle)
            self.conv3 = L.Convolution2D(middle, out, 1, nobias=True)
            self.bn3 = L.BatchNormalization(out)
            if self.projects:
                self.conv4 = L.Convolution2D(channels, out, 1, stride, nobias=True)
                self.bn4 = L.BatchNormalization(out)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        h = F.relu(self.bn2(self.conv2(h)))
        h = self.bn3(self.conv3(h))
        return F.relu(h + (self.bn4(self.conv4(x)) if self.projects else x))


class ResNeXt50(chainer.Chain):
    """ResNeXt-50 (32x4d)."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv1 = L.Convolution2D(3, 64, 7, 2, 3, nobias=True)
            self.bn1 = L.BatchNormalization(64)
            self.blocks = chainer.ChainList()
            channels = 64
            for stage, count in enumerate((3, 4, 6, 3)):
                for number in range(count):
                    stride = 2 if stage and not number else 1
                    self.blocks.append(Bottleneck(channels, 128 << stage, 256 << stage, stride))
                    channels = 256 << stage
            self.fc = L.Linear(channels, 1000)

    def forward(self, x):
        h = F.max_pooling_2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1, cover_all=False)
        for block in self.blocks:
            h = block(h)
        return self.fc(F.mean(h, axis=(2, 3)))
