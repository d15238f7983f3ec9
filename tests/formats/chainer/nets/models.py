"""Small models for Chainer, each with what another one lacks; run by Chainer itself and by the stand-in."""

import chainer
import chainer.functions as F  # noqa: N812 (as everybody calls them)
import chainer.links as L  # noqa: N812
import numpy as np
from chainer import initializers


class Lenet(chainer.Chain):
    """Sizes left to the first call; x.shape in a reshape."""

    insize = 28

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv1 = L.Convolution2D(None, 6, 5)
            self.conv2 = L.Convolution2D(6, 8, ksize=3, stride=2, pad=1, initialW=initializers.HeNormal())
            self.fc1 = L.Linear(None, 20)
            self.fc2 = L.Linear(20, 10, nobias=True)

    def forward(self, x):
        h = F.max_pooling_2d(F.relu(self.conv1(x)), 3, stride=2, pad=1)
        h = F.average_pooling_2d(F.leaky_relu(self.conv2(h)), 2)
        h = F.reshape(h, (x.shape[0], -1))
        h = F.dropout(F.tanh(self.fc1(h)))
        return F.softmax(self.fc2(h))


class Block(chainer.Chain):
    def __init__(self, width, downsample):
        super().__init__()
        self.downsample = downsample
        with self.init_scope():
            self.conv = L.Convolution2D(width, width, 3, 2 if downsample else 1, 1, nobias=True)
            self.bn = L.BatchNormalization(width)

    def __call__(self, x):
        h = self.bn(self.conv(x))
        if self.downsample:
            x = F.average_pooling_2d(x, 2, 2)
        return F.relu(h + x)


class Residual(chainer.Chain):
    """Chains in chains, a list, __call__, a loop, LRN, both kinds of normalisation."""

    insize = 16

    def __init__(self):
        super().__init__(first=L.Convolution2D(3, 8, 3, pad=1))
        with self.init_scope():
            self.blocks = chainer.ChainList(*(Block(8, n == 1) for n in range(3)))
            self.scale = L.Scale(1, (8,), bias_term=True)
            self.norm = L.BatchNormalization(8, use_gamma=False, eps=1e-3)

    def __call__(self, x):
        x = F.local_response_normalization(self.first(x), n=3, k=1.5, alpha=0.05)
        for block in self.blocks:
            x = block(x)
        x = self.norm(self.scale(x))
        return F.normalize(F.mean(x, axis=(2, 3)))


class Encoder(chainer.Chain):
    """Deconvolution to a size, unpooling, groups, dilation, split, concat, PReLU, resize."""

    insize = 12

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.down = L.Convolution2D(4, 8, 3, stride=2, pad=1, groups=2)
            self.wide = L.DilatedConvolution2D(8, 8, 3, pad=2, dilate=2)
            self.depth = L.DepthwiseConvolution2D(8, 2, 3, pad=1)
            self.prelu = L.PReLU((16,))
            self.up = L.Deconvolution2D(16, 6, 4, stride=2, pad=1, outsize=(13, 12))

    def forward(self, x):
        h = F.elu(self.wide(self.down(x)))
        h = self.prelu(self.depth(h))
        a, b = F.split_axis(h, [6], axis=1)
        h = F.concat((b, a, h[:, 2:8, ::1]), axis=1)[:, :16]
        h = self.up(h)
        h = F.unpooling_2d(h, 2, cover_all=False, outsize=(26, 24))
        h = F.resize_images(h, (20, 30))
        return F.clipped_relu(h, 3.0), F.sigmoid(F.max(h, axis=(2, 3)))


class Blocks(chainer.Chain):
    """GoogLeNet's blocks, NIN's layers, Sequential."""

    insize = 16

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.mlp = L.MLPConvolution2D(3, (8, 6), 3, pad=1)
            self.inception = L.Inception(6, 4, 3, 5, 2, 3, 4)
            self.normed = L.InceptionBN(None, 0, 4, 6, 4, 6, "max", stride=2)
            self.last = chainer.Sequential(L.Linear(None, 12), F.relu, L.Linear(12, 5))

    def forward(self, x):
        h = self.normed(self.inception(F.relu(self.mlp(x))))
        return self.last(h)


class Language(chainer.Chain):
    """An embedding, an LSTM with its state and a GRU, two steps."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(20, 6, initialW=np.zeros((20, 6), np.float32))
            self.lstm = L.LSTM(6, 5)
            self.gru = L.StatefulGRU(5, 4)
            self.out = L.Linear(4, 20)

    def reset_state(self):
        self.lstm.reset_state()
        self.gru.reset_state()

    def forward(self, x):
        for step in range(2):
            h = self.gru(self.lstm(self.embed(x[:, step])))
        return self.out(h)


class Arithmetic(chainer.Chain):
    """What Python's signs and the functions of arrays do."""

    insize = 6

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv = L.Convolution2D(2, 4, 1)

    def forward(self, x):
        h = 1 - self.conv(x) * 2 + x[:, :1] / 3.0
        h = (h**2 + 0.5) @ F.swapaxes(h, 2, 3)
        h = F.transpose(h, (0, 2, 3, 1))[..., None, :2]
        h = F.squeeze(h, axis=3) - np.arange(2, dtype=np.float32)
        return F.stack([F.sum(h, axis=1), F.minimum(h[:, 0], -h[:, -1])], axis=1)


class Classified(chainer.Chain):
    """Judges itself, as the models of Chainer's examples do."""

    insize = 8

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.fc = L.Linear(None, 4)
            self.side = L.Linear(None, 4)

    def forward(self, x, t):
        loss = F.softmax_cross_entropy(self.fc(x), t) + 0.3 * F.softmax_cross_entropy(self.side(x), t)
        chainer.report({"loss": loss, "accuracy": F.accuracy(self.fc(x), t)}, self)
        return loss


class Numbered(chainer.Chain):
    """A Sequential of more than two links, whose numbers are not in the order of the calls."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.body = chainer.Sequential(
                L.Linear(3, 4), F.relu, L.Linear(4, 5), L.Linear(5, 6), F.tanh, L.Linear(6, 7)
            )
            self.last = chainer.Sequential(
                F.relu, L.Linear(7, 6), L.Linear(6, 5), L.Linear(5, 4), L.Linear(4, 3)
            )

    def forward(self, x):
        return self.last(self.body(x))
