"""Reading nets that are compared: sizes that are given once, for nets that call their inputs otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from netweave.errors import SourceError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.cli.options import InputShapes
    from netweave.graph import Graph


class Load(Protocol):
    """Reads a net, with other sizes of inputs than the command line gives if some are said."""

    def __call__(self, net: str, shapes: InputShapes | None = None) -> Graph:
        """Return the net."""
        ...


def load_together(nets: Sequence[str], load: Load, shapes: InputShapes) -> list[Graph]:
    """Read nets that are to be compared.

    Sizes go to every net that has an input of the name; each must fit one net at least. A net that leaves the
    sizes of its only input open takes those of the first net.

    Raises:
        SourceError: A net cannot be read.
        UsageError: Sizes are given for an input that no net has.
    """
    refused: dict[str, UsageError] = {}
    found: list[Graph] = []
    taken: set[str] = set()
    for net in nets:
        first = found[0] if found else None
        own = shapes
        try:
            graph = _load_like(net, load, own, first)
        except UsageError:
            own = _own_shapes(net, load, shapes, refused)
            graph = _load_like(net, load, own, first)
        taken |= own.keys()
        found.append(graph)
    for name in shapes:
        if name not in taken:
            raise refused[name]
    return found


def _own_shapes(net: str, load: Load, shapes: InputShapes, refused: dict[str, UsageError]) -> InputShapes:
    """Return the sizes that are for inputs of a net; why it does not take the others is noted."""
    own: InputShapes = {}
    for name, sizes in shapes.items():
        try:
            load(net, {name: sizes})
        except UsageError as error:
            refused.setdefault(name, error)
            continue
        except SourceError as error:
            if name in error.open_inputs or not error.open_inputs:
                raise
        own[name] = sizes
    return own


def _load_like(net: str, load: Load, shapes: InputShapes, first: Graph | None) -> Graph:
    """Read a net; if it leaves the sizes of one input open, with those of the first net's only input."""
    try:
        return load(net, shapes)
    except SourceError as error:
        sizes = _only_sizes(first) if first is not None else None
        if len(error.open_inputs) != 1 or sizes is None:
            raise
        name = error.open_inputs[0]
        graph = load(net, {**shapes, name: sizes})
        text = "x".join(map(str, sizes))
        note = f"{net}: the input {name!r} takes its sizes from the first net: {text}"
        return replace(graph, notes=(*graph.notes, note))


def _only_sizes(graph: Graph) -> tuple[int, ...] | None:
    """Return the sizes of a net's only input, the batch as 1; None if they are not all known."""
    from netweave.graph import known_shape

    if len(graph.inputs) != 1:
        return None
    value = graph.inputs[0]
    declared = graph.declared.get(str(value.name)) or known_shape(value) or ()
    sizes = (declared[0] or 1, *declared[1:]) if declared else ()
    return tuple(size for size in sizes if size) if sizes and all(sizes) else None
