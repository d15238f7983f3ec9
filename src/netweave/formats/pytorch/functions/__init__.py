"""Functions that written source defines for operators that PyTorch lacks, as text, and known again by it.

What a detector does with its heads depends on the data: no trace can hold it. So the reader takes a function
that stands in a file word for word as it is here for the operator that it was written for; one that somebody
changed is traced as any other code is, or refused. To add one: its text in the file of its family, and a row
in the table; its arguments are the operator's inputs, then its attributes, with the registry's defaults.
"""

from netweave.formats.pytorch.functions.table import FUNCTIONS, TEXTS, Function, known, used

__all__ = ["FUNCTIONS", "TEXTS", "Function", "known", "used"]
