"""Nets of TFLite: FlatBuffers of TensorFlow's operators, in other spelling, often quantised.

``program`` reads the tables (``schema``) and makes nodes of operators, ``tensors`` reads what is stored, as
the real numbers that it stands for (``quantization``), and ``interpreter`` reads the nodes with TensorFlow's
own rules: each function in ``operators/`` says which of them an operator is, and with what attributes. To add
one, write such a function, and its options into ``schema``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netweave.files import Source

__all__ = ["match"]

IDENTIFIER = b"TFL3"
"""What a file has at byte 4."""


def match(source: Source) -> bool:
    """Return whether the file is a net of TFLite, by its first bytes."""
    return source.head(8)[4:8] == IDENTIFIER
