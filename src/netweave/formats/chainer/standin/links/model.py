"""Links around models, and the nets that come with Chainer (``chainer.links.model``)."""

from __future__ import annotations

from typing import Any

from netweave.errors import CodeError
from netweave.formats.chainer.standin.functions import FUNCTIONS as F
from netweave.formats.chainer.standin.link import Chain, Link
from netweave.formats.chainer.standin.links.connection import Linear
from netweave.formats.chainer.standin.links.convolution import Convolution2D
from netweave.formats.chainer.standin.links.normalisation import BatchNormalization
from netweave.formats.chainer.standin.links.table import composite
from netweave.formats.chainer.standin.variable import Parameter as StoredArray
from netweave.formats.chainer.standin.variable import Variable


@composite
class Classifier(Chain):
    """A predictor with its loss; read as the predictor."""

    def __init__(self, predictor: Any, lossfun: Any = None, accfun: Any = None, **kwargs: Any) -> None:
        super().__init__()
        with self.init_scope():
            self.predictor = predictor

    def forward(self, x: Any) -> Any:
        """What the predictor makes; its loss is left out, since it judges and does not predict."""
        return self.predictor(x)


@composite
class Parameter(Link):
    """A stored array as a link."""

    def __init__(self, array: Any) -> None:
        super().__init__()
        with self.init_scope():
            self.W = StoredArray(shape=array.shape)

    def forward(self) -> Variable:
        """The array."""
        return self.W


def _without_file(pretrained_model: Any) -> None:
    if pretrained_model not in {"auto", None}:
        raise CodeError("loads its weights itself; give the file to Netweave: model.py,weights.npz")


class _VGG(Chain):
    """Blocks of convolutions, and three dense layers."""

    def __init__(self, pretrained_model: Any = "auto", n_layers: int = 16) -> None:
        super().__init__()
        _without_file(pretrained_model)
        self.depths = {16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}[n_layers]
        channels = 3
        with self.init_scope():
            for block, (depth, width) in enumerate(
                zip(self.depths, (64, 128, 256, 512, 512), strict=True), start=1
            ):
                for number in range(1, depth + 1):
                    setattr(self, f"conv{block}_{number}", Convolution2D(channels, width, 3, 1, 1))
                    channels = width
            self.fc6 = Linear(512 * 7 * 7, 4096)
            self.fc7 = Linear(4096, 4096)
            self.fc8 = Linear(4096, 1000)

    def forward(self, x: Any) -> Variable:
        """The probabilities of the classes."""
        relu = F["relu"]
        for block, depth in enumerate(self.depths, start=1):
            for number in range(1, depth + 1):
                x = relu(self[f"conv{block}_{number}"](x))
            x = F["max_pooling_2d"](x, ksize=2)
        x = F["dropout"](relu(self.fc6(x)))
        x = F["dropout"](relu(self.fc7(x)))
        made: Variable = F["softmax"](self.fc8(x))
        return made


@composite
class VGG16Layers(_VGG):
    """16 layers."""

    def __init__(self, pretrained_model: Any = "auto") -> None:
        super().__init__(pretrained_model, 16)


@composite
class VGG19Layers(_VGG):
    """19 layers."""

    def __init__(self, pretrained_model: Any = "auto") -> None:
        super().__init__(pretrained_model, 19)


class _Bottleneck(Chain):
    def __init__(
        self, channels: int, mid: int, out: int, stride: int, *, has_projection: bool, later: bool
    ) -> None:
        super().__init__()
        first, second = (1, stride) if later else (stride, 1)
        self.has_projection = has_projection
        with self.init_scope():
            self.conv1 = Convolution2D(channels, mid, 1, first, 0, nobias=True)
            self.bn1 = BatchNormalization(mid)
            self.conv2 = Convolution2D(mid, mid, 3, second, 1, nobias=True)
            self.bn2 = BatchNormalization(mid)
            self.conv3 = Convolution2D(mid, out, 1, 1, 0, nobias=True)
            self.bn3 = BatchNormalization(out)
            if has_projection:
                self.conv4 = Convolution2D(channels, out, 1, stride, 0, nobias=True)
                self.bn4 = BatchNormalization(out)

    def forward(self, x: Any) -> Variable:
        relu = F["relu"]
        h = relu(self.bn1(self.conv1(x)))
        h = relu(self.bn2(self.conv2(h)))
        h = self.bn3(self.conv3(h))
        made: Variable = relu(h + (self.bn4(self.conv4(x)) if self.has_projection else x))
        return made


class _Stage(Chain):
    def __init__(self, n: int, channels: int, mid: int, out: int, stride: int, *, later: bool) -> None:
        super().__init__()
        self.order = ["a", *(f"b{number}" for number in range(1, n))]
        for name in self.order:
            is_first = name == "a"
            block = _Bottleneck(
                channels if is_first else out,
                mid,
                out,
                stride if is_first else 1,
                has_projection=is_first,
                later=later,
            )
            self.add_link(name, block)

    def forward(self, x: Any) -> Any:
        for name in self.order:
            x = self[name](x)
        return x


class _ResNet(Chain):
    """ResNet with bottlenecks."""

    def __init__(self, pretrained_model: Any, n_layers: int, downsample_fb: bool = False) -> None:
        super().__init__()
        _without_file(pretrained_model)
        depths = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}[n_layers]
        with self.init_scope():
            self.conv1 = Convolution2D(3, 64, 7, 2, 3)
            self.bn1 = BatchNormalization(64)
            channels = 64
            for number, depth in enumerate(depths):
                mid = 64 << number
                stage = _Stage(depth, channels, mid, 4 * mid, 1 if number == 0 else 2, later=downsample_fb)
                setattr(self, f"res{number + 2}", stage)
                channels = 4 * mid
            self.fc6 = Linear(2048, 1000)

    def forward(self, x: Any) -> Variable:
        """The probabilities of the classes."""
        x = F["max_pooling_2d"](F["relu"](self.bn1(self.conv1(x))), ksize=3, stride=2)
        for number in range(2, 6):
            x = self[f"res{number}"](x)
        x = F["reshape"](F["average_pooling_2d"](x, x.shape[2:], stride=1), (x.shape[0], -1))
        made: Variable = F["softmax"](self.fc6(x))
        return made


@composite
class ResNet50Layers(_ResNet):
    """50 layers."""

    def __init__(self, pretrained_model: Any = "auto", downsample_fb: bool = False) -> None:
        super().__init__(pretrained_model, 50, downsample_fb)


@composite
class ResNet101Layers(_ResNet):
    """101 layers."""

    def __init__(self, pretrained_model: Any = "auto", downsample_fb: bool = False) -> None:
        super().__init__(pretrained_model, 101, downsample_fb)


@composite
class ResNet152Layers(_ResNet):
    """152 layers."""

    def __init__(self, pretrained_model: Any = "auto", downsample_fb: bool = False) -> None:
        super().__init__(pretrained_model, 152, downsample_fb)
