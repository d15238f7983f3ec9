import chainer
import chainer.functions as F
import chainer.links as L


class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv1 = L.Convolution2D(3, 8, ksize=5, stride=2, pad=2)
            self.conv2 = L.Convolution2D(8, 12, ksize=3, stride=1, pad=1)
            self.conv3 = L.Convolution2D(12, 16, ksize=3, stride=1, pad=1, groups=2)
            self.fc1 = L.Linear(64, 20)
            self.fc2 = L.Linear(20, 10)

    def forward(self, x):
        h = self.conv1(x)
        h = F.relu(h)
        h = F.local_response_normalization(h, n=5, k=2.0, alpha=0.05, beta=0.75)
        h = F.max_pooling_2d(h, ksize=3, stride=2)
        h = self.conv2(h)
        h = F.elu(h, alpha=0.5)
        h = self.conv3(h)
        h = F.tanh(h)
        h = F.average_pooling_2d(h, ksize=4, stride=4)
        h = self.fc1(h)
        h = F.sigmoid(h)
        h = F.dropout(h)
        h = self.fc2(h)
        return F.softmax(h, axis=1)
