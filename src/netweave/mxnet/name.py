"""``mx.name``: names that symbols get from the ``with`` around them."""

from netweave.symbol import NameManager, Prefix

__all__ = ["NameManager", "Prefix"]
