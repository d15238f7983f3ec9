"""A node that only A's symbol of MXNet has, copied into B's.

Nodes refer to each other by their numbers, so that all references to nodes behind the new one move by one.
The text keeps its form.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netweave.comparison.fixes.symbol_json import items_of, members_of
from netweave.comparison.fixes.text import NotAppliedError, Replacement, replaced

if TYPE_CHECKING:
    from collections.abc import Iterator

Place = tuple[int, int]
"""Where a value begins and ends in a text."""


@dataclass(frozen=True, slots=True)
class _Symbol:
    """A symbol and its text.

    Attributes:
        text: The text.
        nodes: The nodes.
        places: Where each node stands.
        members: Where the value of each member of the file stands.
    """

    text: str
    nodes: list[dict[str, Any]]
    places: list[Place]
    members: dict[str, Place]

    @classmethod
    def of(cls, text: str) -> _Symbol:
        """Read a symbol.

        Raises:
            NotAppliedError: It is none.
        """
        try:
            members = {key: (start, end) for key, start, end in members_of(text, text.index("{"))}
            places = list(items_of(text, members["nodes"][0]))
            nodes = [json.loads(text[start:end]) for start, end in places]
            for node in nodes:
                _ = node["name"], [int(number) for number, *_ in node["inputs"]]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise NotAppliedError(f"the file is no symbol: {error}") from error
        return cls(text, nodes, places, members)

    def number(self, name: str) -> int:
        """Return the number of a node.

        Raises:
            NotAppliedError: There is none of the name.
        """
        for number, node in enumerate(self.nodes):
            if node["name"] == name:
                return number
        raise NotAppliedError(f"the file has no node {name!r}, as the first net's has")

    def entries(self) -> Iterator[tuple[tuple[str, int], list[int], Place]]:
        """Yield the references to nodes: who refers, the reference, and where its number stands.

        An input refers as its node's name and its place there, an output of the net as ``""`` and its own.
        """
        for node, (start, _) in zip(self.nodes, self.places, strict=True):
            inside = {key: begin for key, begin, _ in members_of(self.text, start)}
            for place, entry in enumerate(items_of(self.text, inside["inputs"])):
                yield (node["name"], place), *self._entry(entry)
        for place, entry in enumerate(items_of(self.text, self.members["heads"][0])):
            yield ("", place), *self._entry(entry)

    def _entry(self, place: Place) -> tuple[list[int], Place]:
        return json.loads(self.text[place[0] : place[1]]), next(items_of(self.text, place[0]))


def copy_node(text_a: str, text_b: str, name: str) -> str:
    """Return B's text with a node of A put between what it reads in A and what reads it there.

    Raises:
        NotAppliedError: The node has arrays of its own, or the symbols are not the same around it.
    """
    a, b = _Symbol.of(text_a), _Symbol.of(text_b)
    node = a.nodes[a.number(name)]
    if any(other["name"] == name for other in b.nodes):
        raise NotAppliedError(f"the file has another node called {name!r}")
    read = [(a.nodes[number], output) for number, output, *_ in node["inputs"]]
    if len(read) != 1 or "subgraphs" in node:
        raise NotAppliedError(f"{name} reads {len(read)} nodes or arrays, and only what reads one is copied")
    (source, output) = read[0]
    number = b.number(source["name"])
    place = number + 1
    readers = {reader for reader, entry, _ in a.entries() if entry[0] == a.number(name)}
    moved = readers & {reader for reader, entry, _ in b.entries() if entry[:2] == [number, output]}
    if moved != readers:
        raise NotAppliedError(f"the file has nothing that reads {source['name']} where {name} is to stand")
    changes = []
    for reader, entry, (start, end) in b.entries():
        new = place if reader in moved else entry[0] + (entry[0] >= place)
        changes.append(Replacement(start, end, str(new)))
    for start, end in items_of(text_b, b.members["arg_nodes"][0]):
        old = int(text_b[start:end])
        changes.append(Replacement(start, end, str(old + (old >= place))))
    if "node_row_ptr" in b.members:
        changes += _moved_rows(b, place)
    inputs = json.dumps([[number, output, 0][: len(node["inputs"][0])]])
    changes.append(_inserted(b, number, _with_inputs(a, name, inputs)))
    return replaced(text_b, changes)


def _with_inputs(a: _Symbol, name: str, inputs: str) -> str:
    """Return the text of a node of A with other inputs."""
    start, end = a.places[a.number(name)]
    first, last = next((begin, stop) for key, begin, stop in members_of(a.text, start) if key == "inputs")
    return a.text[start:first] + inputs + a.text[last:end]


def _inserted(b: _Symbol, number: int, node: str) -> Replacement:
    """Return the change that writes a node behind another one, as far apart as the others are."""
    end = b.places[number][1]
    between = b.text[b.places[0][1] : b.places[1][0]] if len(b.places) > 1 else ", "
    return Replacement(end, end, between + node)


def _moved_rows(b: _Symbol, place: int) -> list[Replacement]:
    """Return the changes of how many outputs there are before each node, for one more with one output."""
    rows = list(items_of(b.text, b.members["node_row_ptr"][0]))
    values = [int(b.text[start:end]) for start, end in rows]
    if len(rows) != len(b.nodes) + 1:
        raise NotAppliedError("the numbers in node_row_ptr do not fit the nodes")
    changes = [
        Replacement(*row, str(value + 1)) for row, value in zip(rows[place:], values[place:], strict=True)
    ]
    between = b.text[rows[0][1] : rows[1][0]]
    start = rows[place][0]
    return [*changes[1:], Replacement(start, rows[place][1], f"{values[place]}{between}{values[place] + 1}")]
