"""``mx.attribute``: attributes that symbols get from the ``with`` around them."""

from netweave.formats.mxnet.symbol import AttrScope

__all__ = ["AttrScope"]
