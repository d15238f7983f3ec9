"""A net as source code for Keras 3, of which a person would have written the most.

The way of the data: ``reading`` makes a step of each node (``operators/``, a table), images with channels
last; ``files.source_code`` finds the parts that repeat; ``writer`` writes functions for those, and ``build``.
"""

from netweave.formats.keras.source.writer import write

__all__ = ["write"]
