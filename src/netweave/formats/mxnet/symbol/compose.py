"""A net with symbols in the place of some of its variables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from netweave.errors import UsageError
from netweave.formats.mxnet.symbol.vertex import Output, sorted_vertices

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netweave.formats.mxnet.symbol.vertex import Vertex


def composed(
    outputs: Sequence[Output], given: Mapping[str, Sequence[Output]], *, name: str | None = None
) -> tuple[Output, ...]:
    """Return the outputs of a copy in which variables are replaced; what needs no copy is shared.

    Args:
        outputs: Those of the net.
        given: By the name of a variable, the one output that takes its place.
        name: New name of the last node, where there is one.

    Raises:
        UsageError: There is no such variable, or there are several outputs for one.
    """
    vertices = sorted_vertices(outputs)
    names = [vertex.name for vertex in vertices if vertex.is_variable]
    for key, replacement in given.items():
        if key not in names:
            raise UsageError(f"there is no variable {key!r} to replace; expected one of {', '.join(names)}")
        if len(replacement) != 1:
            raise UsageError(f"{key!r}: the symbol given has {len(replacement)} outputs, expected one")
    variables = [Output(vertex, 0) for vertex in vertices if vertex.is_variable and vertex.name in given]
    replaced = cut(outputs, {each: given[each.vertex.name][0] for each in variables})
    if not name or len(outputs) != 1 or outputs[0] in variables:
        return replaced
    [last] = replaced
    return (Output(replace(last.vertex, name=name, attributes=dict(last.vertex.attributes)), last.number),)


def cut(outputs: Sequence[Output], at: Mapping[Output, Output]) -> tuple[Output, ...]:
    """Return the outputs of a copy in which some values are replaced; what needs no copy is shared."""
    copies: dict[Vertex, Vertex] = {}

    def moved(entry: Output) -> Output:
        return at.get(entry) or Output(copies[entry.vertex], entry.number)

    for vertex in sorted_vertices(outputs):
        inputs = tuple(map(moved, vertex.inputs))
        copies[vertex] = (
            vertex
            if inputs == vertex.inputs
            else replace(vertex, attributes=dict(vertex.attributes), inputs=inputs)
        )
    return tuple(map(moved, outputs))
