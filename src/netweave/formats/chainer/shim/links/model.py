"""Models of Chainer's links."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from netweave.errors import CodeError
from netweave.formats.chainer.shim.functions import FUNCTIONS as F
from netweave.formats.chainer.shim.link import Chain, Link
from netweave.formats.chainer.shim.links.convolution import (
    BatchNormalization,
    Convolution2D,
    Inception,
    Linear,
)
from netweave.formats.chainer.shim.links.table import Signed, composite, takes
from netweave.formats.chainer.shim.recorder import Parameter as StoredArray
from netweave.formats.chainer.shim.recorder import Variable


@composite
@takes("predictor, lossfun=softmax_cross_entropy, accfun=accuracy, label_key=-1")
class Classifier(Signed, Chain):
    """A predictor with its loss; read as the predictor."""

    def _build(self, predictor: Any) -> None:
        with self.init_scope():
            self.predictor = predictor

    def forward(self, x: Any) -> Any:
        """Return the predictor's output; the loss is left out, since it is no prediction."""
        return self.predictor(x)


@composite
class Parameter(Link):
    """A stored array as a link."""

    def __init__(self, array: Any) -> None:
        super().__init__()
        with self.init_scope():
            self.W = StoredArray(shape=array.shape)

    def forward(self, volatile: str = "off") -> Variable:
        """The array."""
        return self.W


Stages = dict[str, list[Callable[..., Any]]]


class _Vision(Chain, ABC):
    """A net as stages after one another; a call gives those that are asked for."""

    @property
    @abstractmethod
    def functions(self) -> Stages:
        """The functions of each stage."""

    @property
    def available_layers(self) -> list[str]:
        """Names of the stages."""
        return list(self.functions)

    def forward(self, x: Any, layers: Any = None) -> dict[str, Variable]:
        """Return the outputs of the requested stages; by default the class probabilities."""
        wanted = list(layers) if layers is not None else ["prob"]
        unknown = [name for name in wanted if name not in self.functions]
        if unknown:
            raise CodeError(f"asks for {unknown[0]!r}, expected one of {', '.join(self.functions)}")
        outputs: dict[str, Variable] = {}
        for name, functions in self.functions.items():
            if len(outputs) == len(set(wanted)):
                break
            x = self._before(name, x)
            for function in functions:
                x = function(x)
            self._after(name, x)
            if name in wanted:
                outputs[name] = x
        return outputs

    def _before(self, name: str, x: Any) -> Any:
        return x

    def _after(self, name: str, x: Any) -> None:
        pass


DEPTHS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""How many bottlenecks each of the four stages of a ResNet has, by the number of layers."""


def _without_file(pretrained_model: Any) -> None:
    if pretrained_model not in {"auto", None}:
        raise CodeError(
            "loads its weights itself, which is not supported; give the file to Netweave: "
            "model.py,weights.npz"
        )


def _pool(ksize: int, stride: int | None = None) -> Callable[..., Any]:
    return lambda x: F["max_pooling_2d"](x, ksize=ksize, stride=stride)


def _over_all(x: Any) -> Variable:
    pooled = F["average_pooling_2d"](x, x.shape[2:], stride=1)
    return F["reshape"](pooled, (x.shape[0], x.shape[1]))


class _VGG(Signed, _Vision):
    """Blocks of convolutions, and three dense layers."""

    depths: tuple[int, ...]

    def _build(self, pretrained_model: Any) -> None:
        _without_file(pretrained_model)
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

    @property
    def functions(self) -> Stages:
        """The functions of each stage."""
        relu, dropout = F["relu"], F["dropout"]
        stages: Stages = {}
        for block, depth in enumerate(self.depths, start=1):
            for number in range(1, depth + 1):
                stages[f"conv{block}_{number}"] = [self[f"conv{block}_{number}"], relu]
            stages[f"pool{block}"] = [_pool(2)]
        stages |= {"fc6": [self.fc6, relu, dropout], "fc7": [self.fc7, relu, dropout]}
        return stages | {"fc8": [self.fc8], "prob": [F["softmax"]]}


def _add(kind: type, number: int, depths: tuple[int, ...], signature: str) -> None:
    """Add the form of a class with a number of layers to Chainer's links, under Chainer's name for it."""
    own = {"depths": depths, "__doc__": f"{number} layers."}
    name = kind.__name__.strip("_")
    composite(takes(signature)(type(f"{name}{number}Layers", (kind,), own)))


_add(_VGG, 16, (2, 2, 3, 3, 3), "pretrained_model='auto'")
_add(_VGG, 19, (2, 2, 4, 4, 4), "pretrained_model='auto'")


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
        return relu(h + (self.bn4(self.conv4(x)) if self.has_projection else x))


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


class _ResNet(Signed, _Vision):
    """ResNet with bottlenecks."""

    depths: tuple[int, ...]

    def _build(self, pretrained_model: Any, downsample_fb: bool) -> None:
        _without_file(pretrained_model)
        with self.init_scope():
            self.conv1 = Convolution2D(3, 64, 7, 2, 3)
            self.bn1 = BatchNormalization(64)
            channels = 64
            for number, depth in enumerate(self.depths):
                mid = 64 << number
                stage = _Stage(depth, channels, mid, 4 * mid, 1 if number == 0 else 2, later=downsample_fb)
                setattr(self, f"res{number + 2}", stage)
                channels = 4 * mid
            self.fc6 = Linear(2048, 1000)

    @property
    def functions(self) -> Stages:
        """The functions of each stage."""
        stages: Stages = {"conv1": [self.conv1, self.bn1, F["relu"]], "pool1": [_pool(3, 2)]}
        stages |= {f"res{number}": [self[f"res{number}"]] for number in range(2, 6)}
        return stages | {"pool5": [_over_all], "fc6": [self.fc6], "prob": [F["softmax"]]}


for _number, _depths in DEPTHS.items():
    _add(_ResNet, _number, _depths, "pretrained_model='auto', downsample_fb=False")

INCEPTIONS = {
    "3a": (192, 64, 96, 128, 16, 32, 32),
    "3b": (256, 128, 128, 192, 32, 96, 64),
    "4a": (480, 192, 96, 208, 16, 48, 64),
    "4b": (512, 160, 112, 224, 24, 64, 64),
    "4c": (512, 128, 128, 256, 24, 64, 64),
    "4d": (512, 112, 144, 288, 32, 64, 64),
    "4e": (528, 256, 160, 320, 32, 128, 128),
    "5a": (832, 256, 160, 320, 32, 128, 128),
    "5b": (832, 384, 192, 384, 48, 128, 128),
}
"""Channels of GoogLeNet's blocks: in, and out of each convolution."""


@composite
class GoogLeNet(_Vision):
    """GoogLeNet with its two further classifiers, which stand behind the probabilities."""

    def __init__(self, pretrained_model: Any = "auto") -> None:
        super().__init__()
        _without_file(pretrained_model)
        self._kept: dict[str, Any] = {}
        with self.init_scope():
            self.conv1 = Convolution2D(3, 64, 7, stride=2, pad=3)
            self.conv2_reduce = Convolution2D(64, 64, 1)
            self.conv2 = Convolution2D(64, 192, 3, stride=1, pad=1)
            for name, widths in INCEPTIONS.items():
                setattr(self, f"inc{name}", Inception(*widths))
            self.loss3_fc = Linear(1024, 1000)
            for number, channels in ((1, 512), (2, 528)):
                setattr(self, f"loss{number}_conv", Convolution2D(channels, 128, 1))
                setattr(self, f"loss{number}_fc1", Linear(2048, 1024))
                setattr(self, f"loss{number}_fc2", Linear(1024, 1000))

    @property
    def functions(self) -> Stages:
        """The functions of each stage."""
        relu, pool = F["relu"], _pool(3, 2)
        stages: Stages = {
            "conv1": [self.conv1, relu],
            "pool1": [pool, _normalized],
            "conv2_reduce": [self.conv2_reduce, relu],
            "conv2": [self.conv2, relu, _normalized],
            "pool2": [pool],
        }
        for name in INCEPTIONS:
            stages[f"inception_{name}"] = [self[f"inc{name}"]]
            if name in {"3b", "4e"}:
                stages[f"pool{int(name[0])}"] = [pool]
        stages["pool5"] = [lambda x: F["average_pooling_2d"](x, ksize=7, stride=1)]
        stages |= {"loss3_fc": [lambda x: F["dropout"](x, ratio=0.4), self.loss3_fc], "prob": [F["softmax"]]}
        for number in (1, 2):
            first, second = self[f"loss{number}_fc1"], self[f"loss{number}_fc2"]
            stages[f"loss{number}_fc2"] = [_smaller, self[f"loss{number}_conv"], relu, first, relu, second]
        return stages

    def _before(self, name: str, x: Any) -> Any:
        return self._kept.get({"loss1_fc2": "inception_4a", "loss2_fc2": "inception_4d"}.get(name, ""), x)

    def _after(self, name: str, x: Any) -> None:
        if name in {"inception_4a", "inception_4d"}:
            self._kept[name] = x


def _normalized(x: Any) -> Variable:
    return F["local_response_normalization"](x, n=5, k=1, alpha=1e-4 / 5)


def _smaller(x: Any) -> Variable:
    return F["average_pooling_2d"](x, ksize=5, stride=3)
