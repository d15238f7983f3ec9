"""Nets built in Python, in MXNet's words: symbols, operators, and the Graph that they make.

The way of the data: ``document`` has the nodes of a net, ``upgrade`` does to old ones what MXNet does,
``build`` walks them and calls, for each, its function in ``operators/`` with a ``call.Call``; ``variables``
gives stored arrays and inputs (``deduce`` finds their sizes). To add an operator see
docs/how-to/add-an-mxnet-operator.md.
"""

from netweave.symbol import operators

__all__ = ["operators"]
