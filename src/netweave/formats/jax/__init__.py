"""JAX: a function in a ``.py`` file, with the tree of parameters that it takes.

JAX must be installed. The code runs in the guarded child process (``child``): the function is traced to a
jaxpr, and ``lowering`` writes its equations as operators of ONNX, by the rules in ``primitives``. To add a
primitive, write a rule there.
"""

from __future__ import annotations

from netweave.files import Source
from netweave.files.python_code import MAX_CODE_BYTES, imports_package

__all__ = ["match"]


def match(source: Source) -> bool:
    """Return whether a file is Python code that imports JAX, or a library of layers for it."""
    is_code = source.net.suffix == ".py"
    return is_code and imports_package(source.head(MAX_CODE_BYTES), "jax", "flax", "equinox", "haiku")
