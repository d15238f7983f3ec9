"""The nodes behind symbols, and their order."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from netweave.errors import ReadError, UsageError
from netweave.formats.mxnet.symbol.registry import READERS
from netweave.formats.mxnet.symbol.settings import Settings
from netweave.graph import Origin
from netweave.graph.ordering import CycleError, inputs_first

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from netweave.formats.mxnet.symbol.registry import OperatorReader

_PACKAGE = str(Path(__file__).parents[3])

VARIABLE = "null"
"""The operator of a variable: data, label, weights and statistics."""


class Output(NamedTuple):
    """One output of a node."""

    vertex: Vertex
    number: int = 0


@dataclass(eq=False, slots=True)
class Vertex:
    """One node, shared by all symbols that are made of it.

    Attributes:
        name: Its name.
        op: Its operator; ``null`` for a variable.
        attributes: Settings of the operator and of the user, as files write them.
        inputs: What it reads.
        origin: The line of the program, or of the file, that it comes from.
    """

    name: str
    op: str
    attributes: dict[str, str]
    inputs: tuple[Output, ...]
    origin: Origin

    @property
    def is_variable(self) -> bool:
        """True if it stands for an array that a run is given."""
        return self.op == VARIABLE

    @property
    def reader(self) -> OperatorReader | None:
        """Its operator's row in the table; None for variables and for what Netweave does not read."""
        return READERS.get(self.op)

    @property
    def settings(self) -> Settings:
        """Its attributes, to be read by name and type."""
        return Settings(self.attributes, place=self.place)

    @property
    def place(self) -> str:
        """The place where it was made, or its place in the file, for messages."""
        shown = f"variable {self.name!r}" if self.is_variable else f"layer {self.name!r} ({self.op})"
        return f"{self.origin}: {shown}"

    def argument_names(self) -> Sequence[str] | None:
        """Return the names of its inputs; None if its operator is unknown or takes any number."""
        reader = self.reader
        return reader.argument_names(self.settings) if reader else None

    def state_names(self) -> Sequence[str]:
        """Return the names of the inputs that its operator changes itself."""
        reader = self.reader
        return reader.states(self.settings) if reader else ()

    def output_names(self) -> list[str]:
        """Return what its outputs are called; those of a variable have its name."""
        if self.is_variable:
            return [self.name]
        reader = self.reader
        if reader is None:
            return [f"{self.name}_output"]
        return reader.output_names(self.name, reader.count(self.settings))


def sorted_vertices(outputs: Iterable[Output]) -> list[Vertex]:
    """Return all nodes below some outputs, inputs first: MXNet's depth-first order.

    Raises:
        ReadError: A node depends on itself, which only a file can say.
    """
    try:
        return inputs_first(
            (head.vertex for head in outputs), lambda vertex: (source for source, _ in vertex.inputs)
        )
    except CycleError as cycle:
        first: Vertex = cycle.path[0]
        raise ReadError(f"node {first.name!r} depends on itself", place=str(first.origin)) from cycle


def auxiliaries(vertices: Iterable[Vertex]) -> set[Vertex]:
    """Return the variables that operators change themselves."""
    return {
        entry.vertex
        for vertex in vertices
        for name, entry in zip(vertex.argument_names() or (), vertex.inputs, strict=False)
        if name in vertex.state_names() and entry.vertex.is_variable
    }


def check_names(vertices: Iterable[Vertex]) -> None:
    """Refuse two variables of one name.

    Raises:
        UsageError: There are two.
    """
    variables: dict[str, Vertex] = {}
    for vertex in vertices:
        if vertex.is_variable and variables.setdefault(vertex.name, vertex) is not vertex:
            first = variables[vertex.name].origin
            raise UsageError(
                f"{vertex.origin}: there is already a variable {vertex.name!r}, from {first}; use that "
                "one, or choose another name"
            )


def caller() -> Origin:
    """Return the line of the program that is making a symbol: the nearest that is not Netweave's."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return Origin(frame.f_code.co_filename, frame.f_lineno)
