"""The variables of a net: stored arrays, and inputs, which are those that no file stores."""

from __future__ import annotations

import json
from math import prod
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from netweave.errors import ShapeError, WeightError
from netweave.graph import BATCH, Parameter
from netweave.graph.budget import MAX_ELEMENTS
from netweave.symbol.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from netweave.graph import GraphBuilder
    from netweave.symbol.deduce import Deduced
    from netweave.symbol.document import Node

Sizes = tuple[int | None, ...]

STATISTICS = frozenset({"mean", "variance"})
"""Roles that no gradient changes."""

SUFFIXES = {
    "_weight": "weight",
    "_bias": "bias",
    "_gamma": "gamma",
    "_beta": "beta",
    "_mean": "mean",
    "_var": "variance",
    "_parameters": "weight",
}
"""Ends of names by which MXNet itself knows what to initialise how, and the role each tells."""


class Variables:
    """Turns a variable of the symbol into a value of the graph, once for each layout it is wanted in.

    Args:
        arrays: The stored arrays by name, without ``arg:`` and ``aux:``; None if there is no file.
        file: Name of that file.
        input_shapes: Input sizes that the caller gave.
        deduced: What the net tells about inputs without sizes, by name.
        builder: Where values are added.
    """

    def __init__(
        self,
        arrays: Mapping[str, np.ndarray] | None,
        *,
        file: str,
        input_shapes: Mapping[str, tuple[int, ...]],
        deduced: Mapping[str, Deduced],
        builder: GraphBuilder,
    ) -> None:
        self._arrays = arrays
        self._file = file
        self._input_shapes = input_shapes
        self._deduced = deduced
        self._builder = builder
        self._values: dict[tuple[str, tuple[Any, ...]], ir.Value] = {}

    def value(
        self, node: Node, *, default: Sequence[int | None] | None = None, batch_axis: int = 0
    ) -> ir.Value:
        """Return a variable as an operator reads it: a stored array, or else an input of the net.

        Args:
            node: The variable.
            default: Its sizes, where neither caller nor file say.
            batch_axis: Which of its axes is the batch, where the file does not say.

        Raises:
            ShapeError: It is an input, and its sizes are not known.
        """
        if self._is_stored(node):
            return self.parameter(node, shape=None, role=_role(node.name))
        if (node.name, ()) in self._values:
            return self._values[node.name, ()]
        shape = self._input_shape(node, default)
        known = self._deduced.get(node.name)
        dtype = _declared_dtype(node) or (known.dtype if known else ir.DataType.FLOAT)
        batch_axis = max(node.attributes.get("__layout__", "").find("N"), batch_axis)
        sizes: list[int | str | None] = list(shape)
        if 0 < batch_axis < len(sizes):
            sizes[batch_axis] = BATCH
        made = self._builder.input(node.name, sizes, dtype=dtype, batch=batch_axis <= 0)
        self._values[node.name, ()] = made
        return made

    def parameter(
        self,
        node: Node,
        *,
        shape: Sequence[int | None] | None,
        role: str,
        layout: Sequence[tuple[str, tuple[int, ...]]] = (),
    ) -> ir.Value:
        """Return the initializer of a variable that is a stored array.

        Args:
            node: The variable.
            shape: Its sizes as the operator expects them, None where the operator takes any; None as a
                whole for those of the file.
            role: What it is to the operator; see ``Parameter``.
            layout: Steps from the stored array to the initializer.

        Raises:
            WeightError: The stored array has other sizes.
            ShapeError: There is no stored array, and the expected sizes are not all known.
        """
        key = (node.name, tuple(layout))
        if key in self._values:
            return self._values[key]
        entry = self._entry(node, shape, role, trainable=True)
        array = (self._arrays or {}).get(node.name)
        made = self._builder.parameter(entry, array, layout=layout)
        self._values[key] = made
        return made

    def note(self, node: Node, *, shape: Sequence[int | None], role: str) -> tuple[int, ...]:
        """Enter a stored array in the table although no operator reads it; return its sizes."""
        entry = self._entry(node, shape, role, trainable=False)
        self._builder.parameters.setdefault(node.name, entry)
        return entry.shape

    def stored_shape(self, node: Node) -> tuple[int, ...] | None:
        """Return the sizes of a variable's stored array, if there is one."""
        array = (self._arrays or {}).get(node.name)
        return None if array is None else array.shape

    def is_input(self, node: Node) -> bool:
        """Whether the caller made an input of a variable that could be a stored array."""
        return node.name in self._input_shapes

    def _is_stored(self, node: Node) -> bool:
        if self._arrays is not None:
            return node.name in self._arrays
        declared = _declared_shape(node)
        named = "__init__" in node.attributes or node.name.endswith(tuple(SUFFIXES))
        return named and declared is not None and None not in declared and not self.is_input(node)

    def _input_shape(self, node: Node, default: Sequence[int | None] | None) -> Sizes:
        known = self._deduced.get(node.name)
        for shape in (
            self._input_shapes.get(node.name),
            _declared_shape(node),
            default,
            known.shape if known else None,
        ):
            if shape is not None:
                return tuple(shape)
        raise ShapeError(
            f"the sizes of the input {node.name!r} are nowhere given; give them, as in "
            f"--input-shape {node.name}=1x3x224x224",
            place=node.place,
            open_inputs=(node.name,),
        )

    def _entry(
        self, node: Node, shape: Sequence[int | None] | None, role: str, *, trainable: bool
    ) -> Parameter:
        array = (self._arrays or {}).get(node.name)
        return Parameter(
            key=node.name,
            shape=self._checked_shape(node, array, shape),
            role=role,
            loaded=array is not None,
            filler=_filler(node),
            lr_mult=self._multiplier(node, "__lr_mult__"),
            decay_mult=self._multiplier(node, "__wd_mult__"),
            trainable=trainable and role not in STATISTICS,
        )

    def _checked_shape(
        self, node: Node, array: np.ndarray | None, shape: Sequence[int | None] | None
    ) -> tuple[int, ...]:
        if shape is None:
            shape = array.shape if array is not None else _declared_shape(node)
        wanted = tuple(shape or ())
        if array is not None:
            _check_fit(array.shape, wanted, name=node.name, file=self._file, place=node.place)
            return array.shape
        known = tuple(size for size in wanted if size is not None)
        if prod(known) > MAX_ELEMENTS:
            raise ShapeError(
                f"would have the sizes {'x'.join(map(str, known))}, which is more than {MAX_ELEMENTS:,} "
                f"elements; check the sizes in the file",
                place=node.place,
            )
        if len(known) == len(wanted):
            return known
        raise ShapeError(
            "its sizes follow from those of the net's input, which are nowhere given, and there is no "
            "file of weights; give the input's, as in --input-shape data=1x3x224x224",
            place=node.place,
        )

    def _multiplier(self, node: Node, name: str) -> float:
        return Settings(node.attributes, place=node.place).number(name, 1.0)


def _role(name: str) -> str:
    return next((role for suffix, role in SUFFIXES.items() if name.endswith(suffix)), "weight")


def _check_fit(found: Sequence[int], wanted: Sizes, *, name: str, file: str, place: str) -> None:
    fits = len(found) == len(wanted) and all(w in {None, f} for f, w in zip(found, wanted, strict=True))
    if not fits:
        shown = "x".join("?" if size is None else str(size) for size in wanted)
        raise WeightError(
            f"{name!r} has the sizes {'x'.join(map(str, found))} in {file}, expected {shown}; "
            f"are these the weights of this net?",
            place=place,
        )


def _declared_shape(node: Node) -> Sizes | None:
    """Return the sizes that a variable declares; 0 and -1 stand for unknown ones."""
    sizes = Settings(node.attributes, place=node.place).sizes("__shape__", ())
    return tuple(size if size > 0 else None for size in sizes) or None


def _declared_dtype(node: Node) -> ir.DataType | None:
    settings = Settings(node.attributes, place=f"variable {node.name!r}")
    name = settings.dtype("__dtype__", None) if node.attributes.get("__dtype__") != "-1" else None
    return onnx_dtype(name) if name else None


def onnx_dtype(name: str) -> ir.DataType:
    """Return ONNX's element type for MXNet's name of it."""
    short = {"float32": "FLOAT", "float64": "DOUBLE"}
    return ir.DataType[short.get(name, name.upper())]


def _filler(node: Node) -> dict[str, Any]:
    """Return a variable's ``__init__`` (a JSON list of a name and its arguments) as a mapping."""
    text = node.attributes.get("__init__")
    if not text:
        return {}
    try:
        written = json.loads(text)
    except (ValueError, RecursionError):
        return {"type": text}
    if isinstance(written, list) and len(written) == 2 and isinstance(written[1], dict):
        return {"type": written[0], **written[1]}
    return {"type": text}
