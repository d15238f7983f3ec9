"""Connections between layers that are cut differently across workers (SINGA's connection layers).

All are one rule: each worker sends each other one what the part that the one has and the part that the other
is to have have in common. The names say what that comes to.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from netweave.errors import RunError
from netweave.graph.operators import Attributes, Dim, Effect, operator

DEFAULTS = {"worker": 0, "source": "", "target": "", "rank": 2, "trained": 1}


def _connection_shapes(
    shapes: Sequence[tuple[Dim, ...]], attributes: Attributes
) -> Sequence[tuple[Dim, ...]]:
    boxes, worker = json.loads(attributes["target"]), attributes["worker"]
    first, last = boxes["rows"][worker]
    channels = sum(stop - start for start, stop in boxes["channels"][worker])
    places = (stop - start for start, stop in boxes["places"][worker])
    return [(last - first, channels, *places)[: attributes["rank"]]]


def _alone(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    if len(json.loads(attributes["target"])["rows"]) > 1:
        raise RunError("a net that is cut across workers runs on them alone: train it with --devices")
    return inputs[:1]


@operator("Broadcast", shapes=_connection_shapes, effects=[Effect.WORLD], defaults=DEFAULTS)
def broadcast(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """SINGA's kSplit: the value of one worker goes to all; gradients are summed."""
    return _alone(inputs, attributes)


@operator("Gather", shapes=_connection_shapes, effects=[Effect.WORLD], defaults=DEFAULTS)
def gather(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """SINGA's kConcate: parts of all workers become whole, on one or on each; gradients are summed."""
    return _alone(inputs, attributes)


@operator("Slice", shapes=_connection_shapes, effects=[Effect.WORLD], defaults=DEFAULTS)
def slice_(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """SINGA's kSlice: the value of one worker is cut, and each gets its part."""
    return _alone(inputs, attributes)


@operator("Bridge", shapes=_connection_shapes, effects=[Effect.WORLD], defaults=DEFAULTS)
def bridge(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """SINGA's kBridgeSrc and kBridgeDst: the value of one worker goes to another."""
    return _alone(inputs, attributes)


@operator("Halo", shapes=_connection_shapes, effects=[Effect.WORLD], defaults=DEFAULTS)
def halo(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """Each worker's part of an image gets the rows and columns around it that windows reach into."""
    return _alone(inputs, attributes)


@operator("Regroup", shapes=_connection_shapes, effects=[Effect.WORLD], defaults=DEFAULTS)
def regroup(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """SINGA's kConcate before kSlice: rows become channels or the other way round, or channels others."""
    return _alone(inputs, attributes)
