"""Nets of Apache MXNet: ``NET-symbol.json`` of every age with ``NET-%04d.params``.

The files are read here (arrays in ``ndarray``); the nodes and operators of a net are those of
``netweave.symbol``, which builds the Graph.
"""

from netweave.formats.mxnet.reader import match

__all__ = ["match"]
