"""Chainer: a model class in a ``.py`` file, with its weights in ``.npz`` or HDF5.

Chainer itself is not needed, and would not import beside NumPy 2. The class runs in the guarded child process
(``child``) against a stand-in for ``chainer`` and for ``chainercv.links`` (``shim``); every call adds its
operators to a graph, and ``reader`` reads what it made. What lies beside the file is imported as it is. To
add a function, write it in ``shim/functions`` under ``@function``; a link, in ``shim/links``.
"""

from __future__ import annotations

from netweave.files import Source
from netweave.files.python_code import MAX_CODE_BYTES, imports_package

__all__ = ["match"]


def match(source: Source) -> bool:
    """Return whether the file is Python code that imports Chainer or ChainerCV."""
    return source.net.suffix == ".py" and imports_package(source.head(MAX_CODE_BYTES), "chainer", "chainercv")
