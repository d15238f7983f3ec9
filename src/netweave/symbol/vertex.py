"""The nodes behind symbols, and their order."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from netweave.errors import UsageError
from netweave.graph import Origin
from netweave.symbol.document import VARIABLE, Document, Entry, Node
from netweave.symbol.registry import AUXILIARY, READERS
from netweave.symbol.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from netweave.symbol.registry import OperatorReader

_PACKAGE = str(Path(__file__).parents[1])

VERSION = 10901
"""The version of MXNet whose files are written: 1.9.1."""


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
        """Whether it stands for an array that a run is given."""
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
        """Where it was made, for messages."""
        return f"{self.origin}: layer {self.name!r} ({self.op})"

    def argument_names(self) -> Sequence[str] | None:
        """Return the names of its inputs, or None if they have none."""
        reader = self.reader
        return reader.argument_names(self.settings) if reader else None

    def output_names(self) -> list[str]:
        """Return what its outputs are called; those of a variable have its name."""
        if self.is_variable:
            return [self.name]
        reader = self.reader
        if reader is None:
            return [f"{self.name}_output"]
        return reader.output_names(self.name, reader.count(self.settings))


def sorted_vertices(outputs: Iterable[Output]) -> list[Vertex]:
    """Return all nodes below some outputs, inputs first: MXNet's depth-first order."""
    done: dict[Vertex, None] = {}
    for head in outputs:
        waiting = [(head.vertex, 0)]
        while waiting:
            vertex, step = waiting.pop()
            if vertex in done:
                continue
            if step < len(vertex.inputs):
                waiting += [(vertex, step + 1), (vertex.inputs[step].vertex, 0)]
            else:
                done[vertex] = None
    return list(done)


def auxiliaries(vertices: Iterable[Vertex]) -> set[Vertex]:
    """Return the variables that operators change themselves."""
    return {
        entry.vertex
        for vertex in vertices
        for name, entry in zip(vertex.argument_names() or (), vertex.inputs, strict=False)
        if name in AUXILIARY and entry.vertex.is_variable
    }


def to_document(outputs: Sequence[Output]) -> Document:
    """Return the nodes below some outputs as a file has them.

    Raises:
        UsageError: Two variables have the same name.
    """
    vertices = sorted_vertices(outputs)
    _check_names(vertices)
    place = {vertex: number for number, vertex in enumerate(vertices)}

    def entries(read: Iterable[Output]) -> tuple[Entry, ...]:
        return tuple(Entry(place[output.vertex], output.number) for output in read)

    nodes = (Node(v.name, v.op, dict(v.attributes), entries(v.inputs), v.origin) for v in vertices)
    return Document(outputs[0].vertex.origin.file, tuple(nodes), entries(outputs), VERSION)


def _check_names(vertices: Iterable[Vertex]) -> None:
    variables: dict[str, Vertex] = {}
    for vertex in vertices:
        if vertex.is_variable and variables.setdefault(vertex.name, vertex) is not vertex:
            first = variables[vertex.name].origin
            raise UsageError(
                f"{vertex.origin}: there is already a variable {vertex.name!r}, from {first}; use that "
                "one, or choose another name"
            )


def from_document(document: Document) -> tuple[Output, ...]:
    """Return the outputs of a net that was read."""
    vertices: list[Vertex] = []
    for node in document.nodes:
        inputs = tuple(Output(vertices[entry.node], entry.output) for entry in node.inputs)
        vertices.append(Vertex(node.name, node.op, dict(node.attributes), inputs, node.origin))
    return tuple(Output(vertices[entry.node], entry.output) for entry in document.heads)


def caller() -> Origin:
    """Return the line of the program that is making a symbol: the nearest that is not Netweave's."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return Origin(frame.f_code.co_filename, frame.f_lineno)
