"""TFLite's operators as TensorFlow's, one file per family."""

from netweave.formats.lowering import import_families
from netweave.formats.tensorflow.lite.registry import LITE_READERS

__all__ = ["LITE_READERS", "REASONS"]

REASONS = {
    **dict.fromkeys(
        ("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE"),
        "a variable that changes while the net runs; convert the net without resource variables",
    ),
    **dict.fromkeys(
        ("HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE", "HASHTABLE_LOOKUP"),
        "it looks texts up in a table; begin the net behind it",
    ),
    **dict.fromkeys(("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL"), "random numbers"),
    "DENSIFY": "weights stored as sparse arrays; convert the net without sparsity",
    "TFLite_Detection_PostProcess": "boxes of all classes at once: not read; end the net before it",
}
"""Operators that are known and not read, with the reason."""

import_families(__name__)
