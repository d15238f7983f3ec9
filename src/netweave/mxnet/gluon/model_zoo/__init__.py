"""``gluon.model_zoo``: networks to train, without the values that MXNet downloads."""

from netweave.mxnet.gluon.model_zoo import vision

__all__ = ["vision"]
