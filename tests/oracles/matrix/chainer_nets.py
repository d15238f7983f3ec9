"""Model classes in Chainer's words, for the nets that its examples do not have."""

import chainer
import chainer.functions as F  # noqa: N812 (as every model of Chainer has it)
import chainer.links as L  # noqa: N812


class LeNet(chainer.Chain):
    """LeNet as MXNet's examples have it: tanh, and max pooling."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv1 = L.Convolution2D(1, 20, 5)
            self.conv2 = L.Convolution2D(20, 50, 5)
            self.fc1 = L.Linear(800, 500)
            self.fc2 = L.Linear(500, 1000)

    def forward(self, x):
        h = F.max_pooling_2d(F.tanh(self.conv1(x)), 2)
        h = F.max_pooling_2d(F.tanh(self.conv2(h)), 2)
        return self.fc2(F.tanh(self.fc1(h)))


class BasicBlock(chainer.Chain):
    """Two convolutions, and what goes past them."""

    def __init__(self, channels, width, stride):
        super().__init__()
        self.projects = stride != 1 or channels != width
        with self.init_scope():
            self.conv1 = L.Convolution2D(channels, width, 3, stride, 1, nobias=True)
            self.bn1 = L.BatchNormalization(width, eps=1e-5)
            self.conv2 = L.Convolution2D(width, width, 3, 1, 1, nobias=True)
            self.bn2 = L.BatchNormalization(width, eps=1e-5)
            if self.projects:
                self.conv3 = L.Convolution2D(channels, width, 1, stride, 0, nobias=True)
                self.bn3 = L.BatchNormalization(width, eps=1e-5)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        h = self.bn2(self.conv2(h))
        return F.relu(h + (self.bn3(self.conv3(x)) if self.projects else x))


class ResNet18(chainer.Chain):
    """ResNet-18 as its authors and torchvision have it."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv1 = L.Convolution2D(3, 64, 7, 2, 3, nobias=True)
            self.bn1 = L.BatchNormalization(64, eps=1e-5)
            blocks, channels = [], 64
            for stage, width in enumerate((64, 128, 256, 512)):
                for number in range(2):
                    blocks.append(BasicBlock(channels, width, 2 if stage and not number else 1))
                    channels = width
            self.blocks = chainer.Sequential(*blocks)
            self.fc = L.Linear(512, 1000)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        h = F.max_pooling_2d(h, 3, 2, 1, cover_all=False)
        h = F.mean(self.blocks(h), axis=(2, 3))
        return self.fc(h)


class Fire(chainer.Chain):
    """A squeeze to few channels, and two expansions."""

    def __init__(self, channels, squeezed, expanded):
        super().__init__()
        with self.init_scope():
            self.squeeze = L.Convolution2D(channels, squeezed, 1)
            self.expand1 = L.Convolution2D(squeezed, expanded, 1)
            self.expand3 = L.Convolution2D(squeezed, expanded, 3, pad=1)

    def forward(self, x):
        h = F.relu(self.squeeze(x))
        return F.concat([F.relu(self.expand1(h)), F.relu(self.expand3(h))])


class SqueezeNet(chainer.Chain):
    """SqueezeNet 1.0."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv1 = L.Convolution2D(3, 96, 7, 2)
            self.fire2, self.fire3 = Fire(96, 16, 64), Fire(128, 16, 64)
            self.fire4, self.fire5 = Fire(128, 32, 128), Fire(256, 32, 128)
            self.fire6, self.fire7 = Fire(256, 48, 192), Fire(384, 48, 192)
            self.fire8, self.fire9 = Fire(384, 64, 256), Fire(512, 64, 256)
            self.conv10 = L.Convolution2D(512, 1000, 1)

    def forward(self, x):
        h = F.max_pooling_2d(F.relu(self.conv1(x)), 3, 2)
        h = self.fire4(self.fire3(self.fire2(h)))
        h = F.max_pooling_2d(h, 3, 2)
        h = self.fire8(self.fire7(self.fire6(self.fire5(h))))
        h = self.fire9(F.max_pooling_2d(h, 3, 2))
        h = F.relu(self.conv10(F.dropout(h)))
        return F.mean(h, axis=(2, 3))


class FCN8s(chainer.Chain):
    """FCN-8s as its authors have it: padding by 100, crops at fixed places."""

    def __init__(self):
        super().__init__()
        depths, channels = (2, 2, 3, 3, 3), 3
        self.depths = depths
        with self.init_scope():
            for block, (depth, width) in enumerate(
                zip(depths, (64, 128, 256, 512, 512), strict=True), start=1
            ):
                for number in range(1, depth + 1):
                    pad = 100 if block == number == 1 else 1
                    setattr(self, f"conv{block}_{number}", L.Convolution2D(channels, width, 3, 1, pad))
                    channels = width
            self.fc6 = L.Convolution2D(512, 4096, 7)
            self.fc7 = L.Convolution2D(4096, 4096, 1)
            self.score_fr = L.Convolution2D(4096, 21, 1)
            self.score_pool3 = L.Convolution2D(256, 21, 1)
            self.score_pool4 = L.Convolution2D(512, 21, 1)
            self.upscore2 = L.Deconvolution2D(21, 21, 4, 2, nobias=True)
            self.upscore_pool4 = L.Deconvolution2D(21, 21, 4, 2, nobias=True)
            self.upscore8 = L.Deconvolution2D(21, 21, 16, 8, nobias=True)

    def forward(self, x):
        h, pools = x, []
        for block, depth in enumerate(self.depths, start=1):
            for number in range(1, depth + 1):
                h = F.relu(self[f"conv{block}_{number}"](h))
            h = F.max_pooling_2d(h, 2, 2)
            pools.append(h)
        h = F.dropout(F.relu(self.fc6(h)))
        h = F.dropout(F.relu(self.fc7(h)))
        up = self.upscore2(self.score_fr(h))
        skip = self.score_pool4(pools[3])[:, :, 5 : 5 + up.shape[2], 5 : 5 + up.shape[3]]
        up = self.upscore_pool4(up + skip)
        skip = self.score_pool3(pools[2])[:, :, 9 : 9 + up.shape[2], 9 : 9 + up.shape[3]]
        up = self.upscore8(up + skip)
        return up[:, :, 31 : 31 + x.shape[2], 31 : 31 + x.shape[3]]


class UNet(chainer.Chain):
    """U-Net with padding."""

    widths = (64, 128, 256, 512)

    def __init__(self):
        super().__init__()
        channels = 3
        with self.init_scope():
            for level, width in enumerate((*self.widths, 1024)):
                setattr(self, f"down{level}_1", L.Convolution2D(channels, width, 3, pad=1))
                setattr(self, f"down{level}_2", L.Convolution2D(width, width, 3, pad=1))
                channels = width
            for level, width in enumerate(self.widths):
                setattr(self, f"up{level}", L.Deconvolution2D(2 * width, width, 2, 2))
                setattr(self, f"left{level}_1", L.Convolution2D(2 * width, width, 3, pad=1))
                setattr(self, f"left{level}_2", L.Convolution2D(width, width, 3, pad=1))
            self.score = L.Convolution2D(self.widths[0], 2, 1)

    def _block(self, x, name):
        return F.relu(self[f"{name}_2"](F.relu(self[f"{name}_1"](x))))

    def forward(self, x):
        skips = []
        for level in range(len(self.widths)):
            x = self._block(x, f"down{level}")
            skips.append(x)
            x = F.max_pooling_2d(x, 2, 2)
        x = self._block(x, f"down{len(self.widths)}")
        for level in reversed(range(len(self.widths))):
            x = F.concat([skips[level], self[f"up{level}"](x)])
            x = self._block(x, f"left{level}")
        return self.score(x)


class LanguageModel(chainer.Chain):
    """A language model of two layers of LSTM, unrolled over the words of a line."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(200, 64)
            self.l1 = L.LSTM(64, 64)
            self.l2 = L.LSTM(64, 64)
            self.l3 = L.Linear(64, 200)

    def forward(self, x):
        outputs = []
        for step in range(x.shape[1]):
            h = self.embed(x[:, step])
            h = self.l1(F.dropout(h))
            h = self.l2(F.dropout(h))
            outputs.append(self.l3(F.dropout(h)))
        return F.stack(outputs, axis=1)
