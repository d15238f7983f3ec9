"""Nets of Darknet: ``NET.cfg`` with ``NET.weights``, of pjreddie/darknet and of AlexeyAB's branch.

The way of the data: ``config`` parses the file into sections with line numbers, ``reader`` walks them and
calls, for each, its function in ``layers/`` with a ``call.Call``; ``weights`` gives the arrays in Darknet's
order. To add a type of layer, write its function in ``layers/`` under ``@layer("type")``.
"""

from netweave.formats.darknet.reader import match

__all__ = ["match"]
