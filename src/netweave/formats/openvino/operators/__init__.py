"""OpenVINO's operators, one file per family; importing this package registers them all."""

from netweave.formats.lowering import import_families
from netweave.formats.openvino.context import READERS

__all__ = ["READERS", "REASONS"]

REASONS = {
    **dict.fromkeys(("Loop", "TensorIterator", "If"), "a net inside of the net"),
    **dict.fromkeys(("ReadValue", "Assign"), "a state between runs of the net"),
    **dict.fromkeys(
        ("NonMaxSuppression", "MulticlassNms", "MatrixNms", "DetectionOutput"),
        "it chooses boxes; end the net at the scores before it",
    ),
}
"""Operators that are known and not read, with the reason."""

import_families(__name__)
