"""Netweave reads a neural net written for any framework into one graph, compares nets and trains them.

``import netweave`` is light: it loads no framework and no runtime; names (see ``__init__.pyi``) are loaded
when first used.
"""

from netweave.deferred import names_of_stub

__version__ = "0.1.0"

__all__, __getattr__, __dir__ = names_of_stub(__name__, __file__)
