import chainer
import chainer.functions as F
import chainer.links as L


class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.down1 = L.Convolution2D(3, 8, ksize=4, stride=2, pad=1)
            self.prelu = L.PReLU((8,))
            self.down2 = L.DilatedConvolution2D(8, 12, ksize=3, stride=1, pad=2, dilate=2)
            self.bn = L.BatchNormalization(12, eps=0.001)
            self.up1 = L.Deconvolution2D(12, 8, ksize=4, stride=2, pad=1)
            self.out = L.Convolution2D(8, 3, ksize=3, stride=1, pad=1)

    def forward(self, x):
        h = self.down1(x)
        h = self.prelu(h)
        h = self.down2(h)
        h = self.bn(h)
        h = F.leaky_relu(h, slope=0.1)
        h = self.up1(h)
        h = F.relu(h)
        h = F.resize_images(h, (32, 32))
        h = self.out(h)
        return F.sigmoid(h)
