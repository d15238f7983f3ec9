"""Links around models (``chainer.links.model``)."""

from __future__ import annotations

from typing import Any

from netweave.formats.chainer.shim.link import Chain, Link
from netweave.formats.chainer.shim.links.table import Signed, composite, takes
from netweave.formats.chainer.shim.variable import Parameter as StoredArray
from netweave.formats.chainer.shim.variable import Variable


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
