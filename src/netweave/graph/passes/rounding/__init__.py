"""Rounding in a graph: every place where numbers are brought to fewer bits as a pair of nodes of its own."""

from netweave.graph.passes.rounding.explicit import (
    ExplicitRounding,
    explicit_rounding,
    has_rounding,
    without_rounding,
)
from netweave.graph.passes.rounding.formats import Quantiser, StoredRounding, format_name
from netweave.graph.passes.rounding.forms import (
    drop_idle_roundings,
    num_idle_roundings,
    num_signed_roundings,
    unsigned_roundings,
)
from netweave.graph.passes.rounding.layers import (
    MOVING,
    NotExplicitError,
    RoundingPoint,
    array_of,
    choose_rectifiers,
    rectifier_after,
    rounding_points,
)

__all__ = [
    "MOVING",
    "ExplicitRounding",
    "NotExplicitError",
    "Quantiser",
    "RoundingPoint",
    "StoredRounding",
    "array_of",
    "choose_rectifiers",
    "drop_idle_roundings",
    "explicit_rounding",
    "format_name",
    "has_rounding",
    "num_idle_roundings",
    "num_signed_roundings",
    "rectifier_after",
    "rounding_points",
    "unsigned_roundings",
    "without_rounding",
]
