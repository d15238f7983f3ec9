"""Rotary position embedding: ONNX has it from opset 23 on, later than the opset of a Graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.graph.operators import Attributes, Dim, operator

if TYPE_CHECKING:
    from collections.abc import Sequence


def _rotary_shapes(shapes: Sequence[tuple[Dim, ...]], attributes: Attributes) -> Sequence[tuple[Dim, ...]]:
    x, *tables = shapes
    features = x[-1] if x else 0
    if isinstance(features, int) and (features == 0 or features % 2):
        raise ValueError(f"{features} features, expected an even number")
    for name, table in zip(("cosines", "sines"), tables, strict=True):
        half = table[-1]
        if isinstance(features, int) and isinstance(half, int) and 2 * half != features:
            raise ValueError(f"{half} {name} for {features} features, expected half as many")
    return [x]


@operator("RotaryEmbedding", shapes=_rotary_shapes, defaults={"interleaved": 0})
def rotary_embedding(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """ONNX RotaryEmbedding-23: each pair of features is turned by an angle of its own at each position.

    Inputs: values (..., steps, features), and cosines and sines of (..., steps, features / 2), which are
    broadcast over the axes in front.
    Attributes: ``interleaved``: 1 where neighbours are pairs, 0 where feature ``i`` and ``i + features / 2``
    are.
    """
    x, cosines, sines = inputs
    if attributes.get("interleaved", 0):
        first, second = x[..., ::2], x[..., 1::2]
    else:
        first, second = np.split(x, 2, axis=-1)
    turned = first * cosines - second * sines, first * sines + second * cosines
    if attributes.get("interleaved", 0):
        return [np.stack(turned, axis=-1).reshape(x.shape).astype(x.dtype)]
    return [np.concatenate(turned, axis=-1).astype(x.dtype)]
