"""Factors on the gradients that a node sends to its inputs, where a source puts one.

0 is no gradient at all: MXNet's BlockGrad, Caffe's ``propagate_down: false``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import onnx_ir as ir

GRADIENTS_PROP = "netweave.gradients"
"""Metadata key under which a node keeps its factors by the number of the input, as JSON."""


def scale_gradients(made: ir.Value, factors: Mapping[int, float]) -> None:
    """Note the factors on the node that makes a value, by the number of the input."""
    node = made.producer()
    assert node is not None, f"no node makes {made.name!r}"
    node.metadata_props[GRADIENTS_PROP] = json.dumps({str(key): factors[key] for key in factors})


def gradient_factors(node: ir.Node) -> dict[int, float]:
    """Return a node's factors by the number of the input; where there is none it is 1."""
    found = json.loads(node.metadata_props.get(GRADIENTS_PROP, "{}"))
    return {int(index): float(factor) for index, factor in found.items()}
