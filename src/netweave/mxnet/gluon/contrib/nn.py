"""``gluon.contrib.nn``: blocks side by side, and the one that does nothing."""

from __future__ import annotations

from typing import Any

from netweave.mxnet import ndarray as nd
from netweave.mxnet.gluon import nn
from netweave.mxnet.gluon.block import HybridBlock


class Concurrent(nn.Sequential):
    """Blocks on the same input, whose outputs are joined.

    Args:
        axis: The axis along which they are.
        kwargs: As for all blocks.
    """

    def __init__(self, axis: int = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = axis

    def forward(self, x: Any, *args: Any) -> Any:
        """Compute the outputs."""
        return nd.Concat(*(child(x) for child in self._children.values()), dim=self.axis)


class HybridConcurrent(nn.HybridSequential):
    """Blocks on the same input, for arrays and symbols, whose outputs are joined.

    Args:
        axis: The axis along which they are.
        kwargs: As for all blocks.
    """

    def __init__(self, axis: int = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = axis

    def forward(self, x: Any, *args: Any) -> Any:
        """Compute the outputs."""
        from netweave.mxnet import symbol as sym

        joint = nd if isinstance(x, nd.NDArray) else sym
        return joint.Concat(*(child(x) for child in self._children.values()), dim=self.axis)


class Identity(HybridBlock):
    """A block that returns its input."""

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the input."""
        return x
