"""Vertices of MXNet's symbols and their names."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from netweave.errors import ReadError, UsageError
from netweave.files.json_text import JsonObject, checked
from netweave.formats.mxnet.symbol.registry import READERS, OperatorReader
from netweave.formats.mxnet.symbol.settings import Settings
from netweave.graph import Origin
from netweave.graph.ordering import CycleError, inputs_first

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


# Before 0.9 an operator's settings stand in ``param`` and the user's in ``attr``; then all in ``attr``;
# since 1.0 in ``attrs``. The reader of MXNet takes them all, and so does this one (nnvm, saveload_json.cc).
# What MXNet changes in a file of an older version when it loads it are the rules of
# src/nnvm/legacy_json_util.cc, in their order; pooling is not upgraded there, although its output sizes
# changed between 0.7 and 0.9 (see docs/how-to/add-an-mxnet-operator.md). Files are written in the form of
# MXNet 1.9.

MAX_NAME = 10_000
"""Longer names are refused; the writer makes no longer ones."""

OLDEST_VERSION = 800
"""The version of a file that names none: 0.8.0."""


VERSION = 10901
"""The version of MXNet whose files are written: 1.9.1."""


@dataclass(frozen=True, slots=True)
class Document:
    """A net as a file has it.

    Attributes:
        file: Name of the file as given, or of the program that made the net.
        heads: The outputs of the net.
        version: ``major * 10000 + minor * 100 + patch`` of the MXNet that wrote the file.
    """

    file: str
    heads: tuple[Output, ...]
    version: int = VERSION

    @property
    def nodes(self) -> list[Vertex]:
        """The nodes that the heads need, so ordered that inputs come first."""
        return sorted_vertices(self.heads)


def is_document(value: Any) -> bool:
    """Return whether a JSON value looks like a symbol file."""
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
    rows = [_row(item, number, value.place) for number, item in enumerate(value.field("nodes", list))]
    nodes = [vertex for vertex, _ in rows]
    heads = [_entry(item, "heads", value.place) for item in value.field("heads", list)]
    if not heads:
        raise ReadError("the net has no outputs: 'heads' is empty", place=value.place)
    _check_variables(nodes)
    for vertex, entries in rows:
        vertex.inputs = _outputs(entries, nodes, place=f"{vertex.origin}: node {vertex.name!r}")
    document = Document(file, _outputs(heads, nodes, place=f"{file}: heads"), _version(value))
    sorted_vertices(document.heads)  # names a node that depends on itself
    return document


def _version(value: JsonObject) -> int:
    written = value.field("attrs", dict, {}).get("mxnet_version")
    if written is None:
        return OLDEST_VERSION
    pair = checked(written, list, what="'mxnet_version'", place=value.place)
    return checked(pair[-1] if pair else None, int, what="'mxnet_version'", place=value.place)


def _row(item: Any, number: int, place: str) -> tuple[Vertex, list[tuple[int, int]]]:
    """Return a node without its inputs, and these: the number of a node and of its output."""
    if not isinstance(item, JsonObject):
        raise ReadError(f"node {number} is {type(item).__name__}, expected an object", place=place)
    attributes: dict[str, str] = {}
    for name in ("attrs", "attr", "param"):
        for key, text in item.field(name, dict, {}).items():
            attributes.setdefault(key, checked(text, str, what=f"{name}[{key!r}]", place=item.place))
    vertex = Vertex(_name(item, "name"), _name(item, "op"), attributes, (), Origin(item.file, item.line))
    return vertex, [_entry(entry, "inputs", item.place) for entry in item.field("inputs", list)]


def _name(item: JsonObject, field: str) -> str:
    name = item.field(field, str)
    if len(name) > MAX_NAME:
        raise ReadError(
            f"{field!r} has {len(name):,} characters, expected at most {MAX_NAME:,}", place=item.place
        )
    return name


def _entry(item: Any, what: str, place: str) -> tuple[int, int]:
    numbers = checked(item, list, what=f"an entry of {what!r}", place=place)
    if len(numbers) not in {2, 3} or any(type(number) is not int or number < 0 for number in numbers):
        raise ReadError(f"{what!r} has the entry {numbers!r:.60}, expected [node, output]", place=place)
    return numbers[0], numbers[1]


def _check_variables(nodes: Sequence[Vertex]) -> None:
    variables: set[str] = set()
    for node in nodes:
        if node.is_variable and (node.name in variables or not node.name):
            message = f"two variables are named {node.name!r}" if node.name else "a variable has no name"
            raise ReadError(message, place=str(node.origin))
        if node.is_variable:
            variables.add(node.name)


def _outputs(
    entries: Sequence[tuple[int, int]], nodes: Sequence[Vertex], *, place: str
) -> tuple[Output, ...]:
    for number, _ in entries:
        if number >= len(nodes):
            raise ReadError(f"reads node {number}, but there are only {len(nodes)} nodes", place=place)
    return tuple(Output(nodes[number], output) for number, output in entries)


def to_json(document: Document) -> str:
    """Return a net as JSON (nnvm, saveload_json.cc)."""
    nodes = document.nodes
    number = {node: place for place, node in enumerate(nodes)}
    counts = [node.reader.count(node.settings) if node.reader else 1 for node in nodes]
    content = {
        "nodes": [_node(node, number) for node in nodes],
        "arg_nodes": [place for place, node in enumerate(nodes) if node.is_variable],
        "node_row_ptr": list(accumulate(counts, initial=0)),
        "heads": [[number[node], output, 0] for node, output in document.heads],
        "attrs": {"mxnet_version": ["int", document.version]},
    }
    return json.dumps(content, indent=2)


def _node(node: Vertex, number: dict[Vertex, int]) -> dict[str, Any]:
    written: dict[str, Any] = {"op": node.op, "name": node.name}
    if node.attributes:
        written["attrs"] = dict(sorted(node.attributes.items()))
    return {**written, "inputs": [[number[source], output, 0] for source, output in node.inputs]}


HIDDEN = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")
"""Keys of the user that newer files write as ``__key__``."""

MULTIPLIERS = ("lr_mult", "wd_mult")


def upgraded(document: Document) -> Document:
    """Return a net that was just parsed as the newest MXNet would load it; its nodes are changed."""
    nodes = document.nodes
    for node in nodes:
        node.attributes = {
            f"__{key}__" if key in HIDDEN else key: text for key, text in node.attributes.items()
        }
    for node in nodes:
        _move_multipliers(node)
        is_last_axis = node.op in {"argmax", "argmin"} and node.attributes.get("axis") == "-1"
        if document.version < 905 and is_last_axis:
            del node.attributes["axis"]
    if document.version < 900:
        _append_missing(nodes)
    return document


def _move_multipliers(node: Vertex) -> None:
    """Give ``weight_lr_mult`` of an operator to its variable ``weight``, as ``__lr_mult__``."""
    given = [key for key in node.attributes if key.endswith(MULTIPLIERS) and not key.startswith("__")]
    if node.is_variable or not given:
        return
    for (target, _), name in zip(node.inputs, node.argument_names() or (), strict=False):
        for suffix in MULTIPLIERS:
            if f"{name}_{suffix}" in node.attributes and target.is_variable:
                target.attributes[f"__{suffix}__"] = node.attributes.pop(f"{name}_{suffix}")


def _append_missing(nodes: Sequence[Vertex]) -> None:
    """Add the variables of inputs that files before 0.9 leave out: statistics, mostly."""
    for node in nodes:
        missing = () if node.is_variable else (node.argument_names() or ())[len(node.inputs) :]
        for name in missing:
            added = Vertex(f"{node.name}_{name}", VARIABLE, dict(node.attributes), (), node.origin)
            node.inputs += (Output(added),)


class NameManager:
    """Gives names to symbols without one: the operator in small letters, and a number.

    ``with NameManager():`` counts from 0 again (python/mxnet/name.py at 1.9.1).

    >>> with NameManager() as names:
    ...     names.get(None, "convolution"), names.get(None, "convolution"), names.get("mine", "convolution")
    ('convolution0', 'convolution1', 'mine')
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._token: Token[NameManager] | None = None

    def get(self, name: str | None, hint: str) -> str:
        """Return the name of a symbol: the one given, or a fresh one made from the hint."""
        if name:
            return name
        self._counts[hint] += 1
        return f"{hint}{self._counts[hint] - 1}"

    def __enter__(self) -> Self:
        self._token = _names.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._token is not None, "left before it was entered"
        _names.reset(self._token)


class Prefix(NameManager):
    """Puts a prefix before the names of operators, also before those that are given.

    >>> with Prefix("stage1_") as names:
    ...     names.get("conv", "convolution"), names.get(None, "convolution")
    ('stage1_conv', 'stage1_convolution0')
    """

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def get(self, name: str | None, hint: str) -> str:
        """Return the name of a symbol with the prefix."""
        return self._prefix + super().get(name, hint)


class AttrScope:
    """Gives attributes to all symbols made inside, on top of those of the scope around it.

    ``with AttrScope(ctx_group="dev1"):``; see ``user_attributes`` for the spelling.
    """

    def __init__(self, **attributes: str) -> None:
        self._attributes = user_attributes(attributes)
        self._token: Token[dict[str, str]] | None = None

    def __enter__(self) -> Self:
        self._token = _attributes.set({**_attributes.get(), **self._attributes})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._token is not None, "left before it was entered"
        _attributes.reset(self._token)


def user_attributes(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return attributes of the user as files write them, ``__key__``.

    The keys that MXNet itself knows (``lr_mult``, ``ctx_group``, ...) may leave the underscores out; others
    have them, since they would be settings of the operator otherwise.

    Raises:
        UsageError: A key has no underscores, or a value is no text.
    """
    spelled_out: dict[str, str] = {}
    for key, value in attributes.items():
        spelled = f"__{key}__" if key in HIDDEN else key
        if not (spelled.startswith("__") and spelled.endswith("__") and len(spelled) > 4):
            raise UsageError(f"attribute {key!r}: expected a key such as '__{key}__', or {', '.join(HIDDEN)}")
        if not isinstance(value, str):
            raise UsageError(f"attribute {key!r} is {value!r}, expected text")
        spelled_out[spelled] = value
    return spelled_out


def fresh_name(name: str | None, hint: str) -> str:
    """Return the name of a new operator, by the manager in force."""
    return _names.get().get(name, hint)


def scoped_attributes() -> dict[str, str]:
    """Return the attributes of the scopes in force."""
    return dict(_attributes.get())


_names: ContextVar[NameManager] = ContextVar("names", default=NameManager())  # noqa: B039 - one for all
_attributes: ContextVar[dict[str, str]] = ContextVar("attributes", default={})  # noqa: B039 - never changed
