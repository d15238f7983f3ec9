"""The stored arrays of a net, in the layout of its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netweave.graph import parameter_key, parameter_layout
from netweave.graph.parameters import undo_layout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from netweave.graph import Graph


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """One stored array.

    Attributes:
        key: Its name.
        layer: Key of the layer that it belongs to.
        role: As in ``Parameter``.
        values: Its elements, as float64, in the source's layout.
        place: Where it stands, for a message.
    """

    key: str
    layer: str
    role: str
    values: np.ndarray
    place: str


def stored_arrays(graph: Graph) -> list[Stored]:
    """Return a net's arrays of floating point, in its order; counters and tables are no weights."""
    layer_of = {key: layer for layer in graph.layers.values() for key in layer.parameters}
    arrays = []
    for key, values in _arrays(graph):
        if values.dtype.kind != "f" and str(values.dtype) != "bfloat16":
            continue
        layer = layer_of.get(key)
        arrays.append(
            Stored(
                key=key,
                layer=layer.key if layer else key,
                role=graph.parameters[key].role,
                values=values.astype(np.float64),
                place=str(layer.origin) if layer and layer.origin else "",
            )
        )
    return arrays


def _arrays(graph: Graph) -> Iterator[tuple[str, np.ndarray]]:
    """Yield stored arrays by key; of one that several initializers hold parts of, the first part's values."""
    seen = set()
    for value in graph.model.graph.initializers.values():
        key = parameter_key(value)
        if key is None or key in seen or key not in graph.parameters or value.const_value is None:
            continue
        seen.add(key)
        array, shape = value.const_value.numpy(), graph.parameters[key].shape
        try:
            yield key, undo_layout(array, parameter_layout(value), shape)
        except ValueError:
            yield key, array
