"""Functions that written source defines for operators that PyTorch lacks.

What a detector does with its heads depends on the data, so no trace can hold it. The writer therefore copies
the functions of ``runtime/backends/torch`` into the file (decision 0133), and the reader takes a function
that still has exactly this source for the operator that it was written for; one that somebody changed is
traced as any other code is, or refused. To add one: the function in ``runtime/backends/torch``, and a row in
``FUNCTIONS``; its positional arguments are the operator's inputs, its keywords the attributes, with the
registry's defaults.
"""

from netweave.formats.pytorch.functions.sources import FUNCTIONS, Function, recognized, sources, used_sources

__all__ = ["FUNCTIONS", "Function", "recognized", "sources", "used_sources"]
