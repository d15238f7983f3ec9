"""``mx.attribute``: attributes that symbols get from the ``with`` around them."""

from netweave.symbol import AttrScope

__all__ = ["AttrScope"]
