"""The symbol file of MXNet: nodes, their attributes, and the outputs, of every age of the format.

Before 0.9 an operator's settings stand in ``param`` and the user's in ``attr``; then all in ``attr``; since
1.0 in ``attrs``. The reader of MXNet takes them all, and so does this one (nnvm, saveload_json.cc).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netweave.errors import ReadError
from netweave.files.json_text import JsonObject, checked
from netweave.graph import Origin

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "null"
"""The operator of a variable: data, label, weights and statistics."""

MAX_NAME = 400
"""Longer names are refused, so that messages can show them."""

OLDEST_VERSION = 800
"""The version of a file that names none: 0.8.0."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Output number ``output`` of the node number ``node``."""

    node: int
    output: int = 0


@dataclass(frozen=True, slots=True)
class Node:
    """One node as the file describes it.

    Attributes:
        name: Its name.
        op: Its operator; ``null`` for a variable.
        attributes: Settings of the operator and of the user, as written.
        inputs: Outputs of other nodes, in the order of the operator's arguments.
        origin: Where the node stands: a line of the symbol's file, or of the program that made it.
    """

    name: str
    op: str
    attributes: Mapping[str, str]
    inputs: tuple[Entry, ...]
    origin: Origin

    @property
    def is_variable(self) -> bool:
        """Whether the node stands for an array that a run is given."""
        return self.op == VARIABLE

    @property
    def place(self) -> str:
        """Where the node stands, for messages."""
        kind = "variable" if self.is_variable else "layer"
        type_ = "" if self.is_variable else f" ({self.op})"
        return f"{self.origin}: {kind} {self.name!r}{type_}"


@dataclass(frozen=True, slots=True)
class Document:
    """A net: nodes so ordered that inputs come first, only those that the heads need.

    Attributes:
        file: Name of the file as given.
        nodes: The nodes.
        heads: The outputs of the net.
        version: ``major * 10000 + minor * 100 + patch`` of the MXNet that wrote the file.
    """

    file: str
    nodes: tuple[Node, ...]
    heads: tuple[Entry, ...]
    version: int = OLDEST_VERSION


def is_document(value: Any) -> bool:
    """Whether a JSON value looks like a symbol file."""
    return isinstance(value, dict) and "nodes" in value and "heads" in value


def parse_document(value: Any, *, file: str) -> Document:
    """Return the net that a symbol file describes, before any upgrade.

    Args:
        value: The JSON value of the file, from ``read_json``.
        file: Name of the file as given.

    Raises:
        ReadError: The file is not formed as a symbol file is, or its nodes form a cycle.
    """
    if not isinstance(value, JsonObject) or not is_document(value):
        raise ReadError("is not an MXNet symbol: expected an object with 'nodes' and 'heads'", place=file)
    nodes = [_node(item, number, value.place) for number, item in enumerate(value.field("nodes", list))]
    heads = [_entry(item, "heads", value.place) for item in value.field("heads", list)]
    if not heads:
        raise ReadError("the net has no outputs: 'heads' is empty", place=value.place)
    _check_entries(nodes, heads, file)
    return _sorted(nodes, heads, file=file, version=_version(value))


def _version(value: JsonObject) -> int:
    written = value.field("attrs", dict, {}).get("mxnet_version")
    if written is None:
        return OLDEST_VERSION
    pair = checked(written, list, what="'mxnet_version'", place=value.place)
    return checked(pair[-1] if pair else None, int, what="'mxnet_version'", place=value.place)


def _node(item: Any, number: int, place: str) -> Node:
    if not isinstance(item, JsonObject):
        raise ReadError(f"node {number} is {type(item).__name__}, expected an object", place=place)
    attributes: dict[str, str] = {}
    for name in ("attrs", "attr", "param"):
        for key, text in item.field(name, dict, {}).items():
            attributes.setdefault(key, checked(text, str, what=f"{name}[{key!r}]", place=item.place))
    return Node(
        name=_name(item, "name"),
        op=_name(item, "op"),
        attributes=attributes,
        inputs=tuple(_entry(entry, "inputs", item.place) for entry in item.field("inputs", list)),
        origin=Origin(item.file, item.line),
    )


def _name(item: JsonObject, field: str) -> str:
    name = item.field(field, str)
    if len(name) > MAX_NAME:
        raise ReadError(
            f"{field!r} has {len(name):,} characters, expected at most {MAX_NAME}", place=item.place
        )
    return name


def _entry(item: Any, what: str, place: str) -> Entry:
    numbers = checked(item, list, what=f"an entry of {what!r}", place=place)
    if len(numbers) not in {2, 3} or any(type(number) is not int or number < 0 for number in numbers):
        raise ReadError(f"{what!r} has the entry {numbers!r:.60}, expected [node, output]", place=place)
    return Entry(numbers[0], numbers[1])


def _check_entries(nodes: list[Node], heads: list[Entry], file: str) -> None:
    variables: set[str] = set()
    for node in nodes:
        if node.is_variable and (node.name in variables or not node.name):
            message = f"two variables are named {node.name!r}" if node.name else "a variable has no name"
            raise ReadError(message, place=str(node.origin))
        if node.is_variable:
            variables.add(node.name)
        for entry in node.inputs:
            _check_entry(entry, nodes, place=f"{node.origin}: node {node.name!r}")
    for entry in heads:
        _check_entry(entry, nodes, place=f"{file}: heads")


def _check_entry(entry: Entry, nodes: list[Node], *, place: str) -> None:
    if entry.node >= len(nodes):
        raise ReadError(f"reads node {entry.node}, but there are only {len(nodes)} nodes", place=place)


def _sorted(nodes: list[Node], heads: list[Entry], *, file: str, version: int) -> Document:
    """Order the nodes that the heads need by depth-first search, as MXNet does; name a cycle."""
    order: list[int] = []
    state: dict[int, bool] = {}  # False while below it, True when done
    for head in heads:
        stack = [(head.node, 0)]
        while stack:
            number, step = stack.pop()
            if step == 0 and number in state:
                if not state[number]:
                    node = nodes[number]
                    raise ReadError(f"node {node.name!r} depends on itself", place=str(node.origin))
                continue
            state[number] = False
            inputs = nodes[number].inputs
            if step < len(inputs):
                stack += [(number, step + 1), (inputs[step].node, 0)]
            else:
                state[number] = True
                order.append(number)
    place = {old: new for new, old in enumerate(order)}

    def moved(entries: tuple[Entry, ...] | list[Entry]) -> tuple[Entry, ...]:
        return tuple(Entry(place[entry.node], entry.output) for entry in entries)

    kept = [nodes[number] for number in order]
    ready = [Node(n.name, n.op, n.attributes, moved(n.inputs), n.origin) for n in kept]
    return Document(file, tuple(ready), moved(heads), version)
