import chainer
import chainer.functions as F
import chainer.links as L


class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.stem = L.Convolution2D(3, 8, ksize=3, stride=1, pad=1)
            self.one = L.Convolution2D(8, 6, ksize=1, stride=1, pad=0)
            self.three = L.Convolution2D(8, 6, ksize=3, stride=1, pad=1)
            self.pooled = L.Convolution2D(8, 4, ksize=1, stride=1, pad=0)
            self.bn = L.BatchNormalization(16, eps=0.001)
            self.depthwise = L.DepthwiseConvolution2D(16, 1, ksize=3, stride=2, pad=1)
            self.scores = L.Convolution2D(16, 10, ksize=1, stride=1, pad=0)

    def forward(self, x):
        h = self.stem(x)
        h = F.relu(h)
        h = F.max_pooling_2d(h, ksize=3, stride=2, cover_all=False)
        a = self.one(h)
        b = self.three(h)
        c = F.average_pooling_2d(h, ksize=3, stride=1, pad=1)
        c = self.pooled(c)
        h = F.concat((a, b, c), axis=1)
        h = self.bn(h)
        h = F.elu(h, alpha=0.5)
        h = self.depthwise(h)
        h = F.clipped_relu(h, z=6.0)
        h = self.scores(h)
        return F.log_softmax(F.mean(h, axis=(2, 3)), axis=1)
