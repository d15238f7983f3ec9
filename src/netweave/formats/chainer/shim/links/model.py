"""Links around models (``chainer.links.model``)."""

from __future__ import annotations

from typing import Any

from netweave.formats.chainer.shim.functions import FUNCTIONS as F
from netweave.formats.chainer.shim.link import Chain, Link
from netweave.formats.chainer.shim.links.table import composite
from netweave.formats.chainer.shim.variable import Parameter as StoredArray
from netweave.formats.chainer.shim.variable import Variable


@composite
class Classifier(Chain):
    """A predictor with its loss; read as the predictor."""

    def __init__(
        self,
        predictor: Any,
        lossfun: Any = F["softmax_cross_entropy"],
        accfun: Any = F["accuracy"],
        label_key: Any = -1,
    ) -> None:
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

    def forward(self, volatile: str = "off") -> Variable:
        """The array."""
        return self.W
