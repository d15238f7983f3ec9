"""Graphs on torch: run and, in ``TorchNet``, train.

An operator is lowered by the function that the table (``operator_table.py``) has for it; the functions stand
in one file per family. To add one see the head of ``operator_table.py``. Names (see ``__init__.pyi``) are
loaded when first used: devices and sums over ranks need no operator.
"""

from netweave.deferred import names_of_stub

__all__, __getattr__, __dir__ = names_of_stub(__name__, __file__)
