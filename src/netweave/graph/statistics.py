"""Running statistics of a BatchNormalization, as far as ONNX cannot describe them.

ONNX's rule, ``stored = momentum * stored + (1 - momentum) * batch`` with the biased variance, is that of
MXNet and Keras. Caffe and PyTorch take the unbiased variance. Caffe also stores sums, ``sum = momentum *
sum + batch``, and their number, counted alike: the node's statistics are the sums divided by it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir

STATISTICS_PROP = "netweave.statistics"
"""Metadata key of the rule on a BatchNormalization, as JSON."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """The rule of one BatchNormalization; by default ONNX's.

    Attributes:
        unbiased: The variance of a batch of m elements counts times m / (m - 1).
        fixed: The stored statistics are used in training too, and stay.
        count: Key of the stored number of sums, for Caffe; its initializer has no node.
    """

    unbiased: bool = False
    fixed: bool = False
    count: str | None = None


def set_statistics(normalised: ir.Value, statistics: Statistics) -> None:
    """Note the rule on the BatchNormalization that makes a value."""
    node = normalised.producer()
    assert node is not None, f"no node makes {normalised.name!r}"
    node.metadata_props[STATISTICS_PROP] = json.dumps(asdict(statistics))


def statistics_of(node: ir.Node) -> Statistics:
    """Return the rule of a BatchNormalization."""
    return Statistics(**json.loads(node.metadata_props.get(STATISTICS_PROP, "{}")))
