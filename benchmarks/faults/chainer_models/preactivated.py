import chainer
import chainer.functions as F
import chainer.links as L


class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv0 = L.Convolution2D(3, 8, ksize=3, stride=1, pad=1, nobias=True)
            self.bn1a = L.BatchNormalization(8, eps=0.001)
            self.conv1a = L.Convolution2D(8, 4, ksize=1, stride=1, pad=0, nobias=True)
            self.bn1b = L.BatchNormalization(4, eps=0.001)
            self.conv1b = L.Convolution2D(4, 4, ksize=3, stride=2, pad=1, nobias=True)
            self.bn1c = L.BatchNormalization(4, eps=0.001)
            self.conv1c = L.Convolution2D(4, 16, ksize=1, stride=1, pad=0, nobias=True)
            self.short1 = L.Convolution2D(8, 16, ksize=1, stride=2, pad=0, nobias=True)
            self.bn2a = L.BatchNormalization(16, eps=0.001)
            self.conv2a = L.Convolution2D(16, 16, ksize=3, stride=1, pad=1, groups=4)
            self.conv2b = L.Convolution2D(16, 16, ksize=1, stride=1, pad=0)
            self.squeeze = L.Linear(16, 4)
            self.excite = L.Linear(4, 16)
            self.bn3 = L.BatchNormalization(16, eps=0.001)
            self.fc = L.Linear(16, 10)

    def forward(self, x):
        h = self.conv0(x)
        h = self.bn1a(h)
        h = F.relu(h)
        s = self.short1(h)
        h = self.conv1a(h)
        h = self.bn1b(h)
        h = F.relu(h)
        h = self.conv1b(h)
        h = self.bn1c(h)
        h = F.relu(h)
        h = self.conv1c(h)
        h = F.add(h, s)
        r = self.bn2a(h)
        r = F.relu(r)
        r = self.conv2a(r)
        r = F.leaky_relu(r, slope=0.2)
        r = self.conv2b(r)
        g = F.average_pooling_2d(r, ksize=16, stride=16)
        g = self.squeeze(g)
        g = F.relu(g)
        g = self.excite(g)
        g = F.sigmoid(g)
        g = F.broadcast_to(F.reshape(g, (-1, 16, 1, 1)), r.shape)
        r = r * g
        h = F.add(h, r)
        h = self.bn3(h)
        h = F.relu(h)
        h = F.average_pooling_2d(h, ksize=16, stride=16)
        return self.fc(h)
