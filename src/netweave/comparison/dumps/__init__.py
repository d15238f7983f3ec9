"""A net against what another implementation computed: activations in a file, whose names say nothing.

Tensors are paired by their values, as weights alone are (``stored``). For the first one that differs, known
mismatches are applied to the net that can be run; the one that reproduces the tensor is the cause.
"""

from netweave.comparison.dumps.comparison import compare_dump, compare_dumps
from netweave.comparison.dumps.inputs import choose_inputs, compare_sequences
from netweave.comparison.dumps.shards import join_inputs

__all__ = ["choose_inputs", "compare_dump", "compare_dumps", "compare_sequences", "join_inputs"]
