"""PyTorch source as a person would have written it, from a Graph.

The way of the data: ``reading`` makes each node a step of Python by the table in ``operators/``; ``blocks``
finds the parts that repeat; ``forward`` and ``text`` write them down; ``writer`` is the order of them and
keeps the weights. To add an operator, write its function in ``operators/`` under ``@writes("Op")``.
"""

from netweave.formats.pytorch.source.writer import Text, write, write_source

__all__ = ["Text", "write", "write_source"]
