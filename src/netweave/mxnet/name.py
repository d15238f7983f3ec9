"""``mx.name``: names that symbols get from the ``with`` around them."""

from netweave.formats.mxnet.symbol import NameManager, Prefix

__all__ = ["NameManager", "Prefix"]
