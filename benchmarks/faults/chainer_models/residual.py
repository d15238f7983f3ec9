import chainer
import chainer.functions as F
import chainer.links as L


class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.stem = L.Convolution2D(3, 8, ksize=3, stride=2, pad=1, nobias=True)
            self.bn0 = L.BatchNormalization(8, eps=0.001)
            self.conv1 = L.Convolution2D(8, 8, ksize=3, stride=1, pad=1, nobias=True)
            self.bn1 = L.BatchNormalization(8, eps=0.001)
            self.conv2 = L.Convolution2D(8, 8, ksize=3, stride=1, pad=1, nobias=True)
            self.bn2 = L.BatchNormalization(8, eps=0.001)
            self.conv3 = L.Convolution2D(8, 16, ksize=3, stride=2, pad=1)
            self.short = L.Convolution2D(8, 16, ksize=1, stride=2, pad=0)
            self.fc = L.Linear(16, 10)

    def forward(self, x):
        h = self.stem(x)
        h = self.bn0(h)
        h = F.relu(h)
        y = self.conv1(h)
        y = self.bn1(y)
        y = F.leaky_relu(y, slope=0.2)
        y = self.conv2(y)
        y = self.bn2(y)
        h = F.add(y, h)
        h = F.elu(h, alpha=0.5)
        y = self.conv3(h)
        h = self.short(h)
        h = F.concat((h, y), axis=1)
        h = F.maxout(h, 2)
        h = F.average_pooling_2d(h, ksize=8, stride=8)
        return self.fc(h)
