import chainer
import chainer.functions as F
import chainer.links as L


class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv1_1 = L.Convolution2D(3, 8, ksize=3, stride=1, pad=1)
            self.conv1_2 = L.Convolution2D(8, 8, ksize=3, stride=1, pad=1)
            self.bn1 = L.BatchNormalization(8, eps=0.001)
            self.conv2_1 = L.Convolution2D(8, 12, ksize=3, stride=1, pad=1)
            self.bn2 = L.BatchNormalization(12, eps=0.001)
            self.conv3_1 = L.DilatedConvolution2D(12, 16, ksize=3, stride=1, pad=2, dilate=2)
            self.conv3_2 = L.Convolution2D(16, 16, ksize=3, stride=1, pad=1)
            self.score3 = L.Convolution2D(16, 6, ksize=1, stride=1, pad=0)
            self.score2 = L.Convolution2D(12, 6, ksize=1, stride=1, pad=0)
            self.up3 = L.Deconvolution2D(6, 6, ksize=4, stride=2, pad=1, nobias=True)
            self.up2 = L.Deconvolution2D(6, 6, ksize=4, stride=2, pad=1)
            self.refine = L.Convolution2D(14, 5, ksize=3, stride=1, pad=1)

    def forward(self, x):
        h = self.conv1_1(x)
        h = F.relu(h)
        h = self.conv1_2(h)
        h = self.bn1(h)
        a = F.relu(h)
        h = F.max_pooling_2d(a, ksize=2, stride=2)
        h = self.conv2_1(h)
        h = self.bn2(h)
        b = F.elu(h, alpha=0.5)
        h = F.max_pooling_2d(b, ksize=3, stride=2, pad=1, cover_all=False)
        h = self.conv3_1(h)
        h = F.relu(h)
        h = self.conv3_2(h)
        h = F.tanh(h)
        h = self.score3(h)
        h = self.up3(h)
        c = self.score2(b)
        h = F.add(h, c)
        h = self.up2(h)
        h = F.concat((h, a), axis=1)
        h = self.refine(h)
        return F.softmax(h, axis=1)
