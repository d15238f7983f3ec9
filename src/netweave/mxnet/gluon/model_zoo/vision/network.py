"""The base of the vision networks: features, then an output."""

from __future__ import annotations

from typing import Any

from netweave.mxnet.gluon import nn
from netweave.mxnet.gluon.block import HybridBlock


class Network(HybridBlock):
    """A network: a subclass sets ``features`` and ``output``."""

    features: HybridBlock
    output: HybridBlock

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the scores of the classes."""
        return self.output(self.features(x))


def row(*blocks: HybridBlock, prefix: str = "") -> nn.HybridSequential:
    """Return blocks one behind the other."""
    found = nn.HybridSequential(prefix=prefix)
    found.add(*blocks)
    return found


def normalised(convolution: HybridBlock, **settings: Any) -> list[HybridBlock]:
    """Return a convolution with batch normalisation and ReLU behind it."""
    return [convolution, nn.BatchNorm(**settings), nn.Activation("relu")]
