"""Nets of Apache MXNet: ``NET-symbol.json`` of every age with ``NET-%04d.params``.

The way of the data: ``symbol`` parses the file, ``upgrade`` does what MXNet does to old ones, ``reader``
walks the nodes and calls, for each, its function in ``operators/`` with a ``call.Call``; ``variables``
gives stored arrays (``ndarray``) and inputs (``deduce`` finds their sizes). To add an operator see
docs/how-to/add-an-mxnet-operator.md.
"""

from netweave.formats.mxnet.reader import match, read

__all__ = ["match", "read"]
