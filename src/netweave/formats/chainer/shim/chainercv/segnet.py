"""SegNet (``chainercv.links.model.segnet``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.formats.chainer.shim.chainercv.table import cv_link, number_of
from netweave.formats.chainer.shim.functions import FUNCTIONS as F
from netweave.formats.chainer.shim.link import Chain
from netweave.formats.chainer.shim.links.convolution import Convolution2D
from netweave.formats.chainer.shim.links.normalisation import BatchNormalization

if TYPE_CHECKING:
    from netweave.formats.chainer.shim.variable import Variable

LEVELS = 4


@cv_link
class SegNetBasic(Chain):
    """Four levels down and up; each way up puts elements where the way down found them."""

    def __init__(self, n_class: Any = None, pretrained_model: Any = None, initialW: Any = None) -> None:
        super().__init__()
        self.n_class = number_of("n_class", n_class, pretrained_model)
        names = [f"conv{level}" for level in range(1, LEVELS + 1)]
        names += [f"conv_decode{level}" for level in range(LEVELS, 0, -1)]
        with self.init_scope():
            for number, name in enumerate(names):
                setattr(self, name, Convolution2D(64 if number else None, 64, 7, 1, 3, nobias=True))
                setattr(self, f"{name}_bn", BatchNormalization(64))
            self.conv_classifier = Convolution2D(64, self.n_class, 1)

    def _stage(self, name: str, x: Any) -> Any:
        return self[f"{name}_bn"](self[name](x))

    def forward(self, x: Any) -> Variable:
        """A score of each class for each pixel."""
        h = F["local_response_normalization"](x, 5, 1, 1e-4 / 5.0, 0.75)
        places = []
        for level in range(1, LEVELS + 1):
            h = F["relu"](self._stage(f"conv{level}", h))
            h, indices = F["max_pooling_2d"](h, 2, 2, return_indices=True)
            places.append(indices)
        for level in range(LEVELS, 0, -1):
            h = self._stage(f"conv_decode{level}", _larger(h, places.pop()))
        return self.conv_classifier(h)


def _larger(x: Any, places: Any) -> Variable:
    """Return twice the height and width; what lies outside the smaller of both is cut off."""
    height, width = (min(sizes) for sizes in zip(x.shape[2:], places.shape[2:], strict=True))
    if x.shape != places.shape:
        x, places = x[:, :, :height, :width], places[:, :, :height, :width]
    outsize = (2 * height, 2 * width)
    return F["upsampling_2d"](x, places, ksize=2, stride=2, outsize=outsize)
