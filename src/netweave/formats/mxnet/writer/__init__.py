"""A net as ``NET-symbol.json`` and ``NET-0000.params``, in the operators of MXNet 1.9.

The nodes are made by ``netweave.symbol``, as a script of MXNet's would. To add an operator: a function under
``@written`` in the file of its subject in ``operators``.
"""

from netweave.formats.mxnet.writer.files import write

__all__ = ["write"]
