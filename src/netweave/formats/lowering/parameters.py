"""The stored arrays of a net while it is read: who owns which, and the initializers made from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.graph import GraphBuilder, Parameter
from netweave.graph.costs import MAX_ELEMENTS, num_elements
from netweave.graph.parameters import Step
from netweave.graph.summary import dims_text

if TYPE_CHECKING:
    from netweave.formats.lowering.context import LayerContext

Layout = tuple["Step", ...]
"""Steps from a stored array, as the source lays it out, to the initializer that a node needs."""

STATISTICS = frozenset({"mean", "variance"})
"""Roles of stored arrays that no gradient changes."""


class ParameterStore:
    """Stored arrays by key: one entry in the Graph for each, one initializer for each layout it is wanted in.

    A reader subclasses it with what its framework says of an array: where its values lie, who shares it, and
    how it is trained.

    Args:
        builder: Where parameters and initializers go.
    """

    def __init__(self, builder: GraphBuilder) -> None:
        self._builder = builder
        self._arrays: dict[str, np.ndarray | None] = {}
        self._values: dict[tuple[str, Layout], ir.Value] = {}
        self._keys_of: dict[str, list[str]] = {}

    def declare(
        self,
        key: str,
        shape: Sequence[int],
        role: str,
        array: np.ndarray | None,
        *,
        context: LayerContext,
        filler: Mapping[str, Any] | None = None,
        lr_mult: float = 1.0,
        decay_mult: float = 1.0,
        trainable: bool = True,
    ) -> Parameter:
        """Add a stored array to the Graph's table, and return its entry; a known key keeps its first entry.

        Args:
            key: See ``Parameter``, as for all that follow.
            shape: Sizes in the source's layout.
            role: What it is to its layer; statistics are never trained.
            array: Its values; None where no file gives them.
            context: The layer that owns it, for messages.
            filler: The source's rule for first values.
            lr_mult: Factor on the learning rate.
            decay_mult: Factor on the weight decay.
            trainable: Whether a gradient changes it.

        Raises:
            ShapeError: It would have more elements than any array can have.
        """
        check_size(key, shape, context)
        if key not in self._builder.parameters:
            trainable = trainable and role not in STATISTICS
            self._arrays[key] = array
            self._builder.parameters[key] = Parameter(
                key=key,
                shape=tuple(shape),
                role=role,
                loaded=array is not None,
                filler=filler or {},
                lr_mult=lr_mult,
                decay_mult=decay_mult,
                trainable=trainable,
            )
        return self._builder.parameters[key]

    def array(self, key: str) -> np.ndarray | None:
        """Return the values of a declared array; None where no file gives them."""
        return self._arrays[key]

    def initializer(self, key: str, layout: Sequence[Step] = (), *, name: str | None = None) -> ir.Value:
        """Return the initializer made from a declared array; the same one wherever the layout is the same.

        Args:
            key: The key of the array.
            layout: Steps from the stored array to the initializer.
            name: Name of the initializer; by default the key.
        """
        steps = tuple((kind, tuple(numbers)) for kind, numbers in layout)
        if (key, steps) not in self._values:
            entry = self._builder.parameters[key]
            self._values[key, steps] = self._builder.parameter(
                entry, self._arrays[key], layout=steps, name=name
            )
        return self._values[key, steps]

    def note_use(self, layer_key: str, key: str) -> None:
        """Say that a layer reads an array."""
        self._keys_of.setdefault(layer_key, []).append(key)

    def keys(self, layer_key: str) -> tuple[str, ...]:
        """Return the keys of the arrays that a layer reads, in order."""
        return tuple(self._keys_of.get(layer_key, ()))


def check_size(key: str, shape: Sequence[int], context: LayerContext) -> None:
    """Refuse an array that nobody could hold in memory.

    Raises:
        ShapeError: It would have more than ``MAX_ELEMENTS`` elements, or a size is negative.
    """
    if num_elements(shape) is None:
        raise context.shape_error(
            f"its array {key!r} would be {dims_text(tuple(shape))}, expected at most {MAX_ELEMENTS:,} "
            "elements; check the sizes in the file"
        )
