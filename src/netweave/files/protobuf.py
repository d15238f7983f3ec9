"""Protocol buffers."""

from __future__ import annotations

import mmap
import re
import secrets
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from netweave.errors import ReadError
from netweave.files.protobuf_fields import BYTES, Span, field_spans, write_field
from netweave.files.source import check_file, read_bytes, unreadable

if TYPE_CHECKING:
    from google.protobuf.message import Message as WireMessage


# Protobuf would hold each of them twice on the way: in the bytes of the file and in the message. So they
# are left out of the message that it parses; a mark in their place says where in the file they lie.
# ``onnx`` does the same for ONNX's messages, whose arrays have sizes and types of their own (decision
# 0187).

MIN_FILE_BYTES = 4 << 20
"""Smaller files are parsed whole."""

MIN_ARRAY_BYTES = 64 << 10
"""Smaller arrays stay in the message."""

MAX_DEPTH = 16
"""Messages in one another that are looked into; Caffe's arrays lie four deep."""

MAX_FIELDS = 100_000
"""Fields of one message that are looked at. Files that store numbers one by one have millions."""

_MARK = secrets.token_bytes(16)
"""What stands before the place of an array; no file can hold it."""

_PLACE = struct.Struct("<QQ")


def without_large_fields(path: Path, kind: MessageType) -> bytes | None:
    """Return the message in a file without its large arrays; None for what is better parsed whole.

    Args:
        path: The file.
        kind: The kind of message that it holds.

    Raises:
        ReadError: The file cannot be read.
    """
    if check_file(path) < MIN_FILE_BYTES:
        return None
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _slim(content, Span(0, BYTES, 0, 0, len(content)), kind, depth=0)
    except OSError as error:
        raise unreadable(str(path), error) from error
    except ValueError:
        return None  # no message: parsing it says what is wrong


def read_chunks(chunks: Sequence[bytes], dtype: np.dtype[Any], path: Path | None) -> np.ndarray:
    """Return the array that some bytes hold one behind the other, or a file in the place of which they stand.

    Args:
        chunks: The bytes as the message has them.
        dtype: Type of the numbers.
        path: The file that large ones were left in; None if there is none.

    Raises:
        ReadError: The file has changed since.
    """
    if path is None or not any(chunk.startswith(_MARK) for chunk in chunks):
        content = b"".join(chunks)
        return np.frombuffer(content, dtype, count=len(content) // dtype.itemsize)
    return np.concatenate([_read_chunk(chunk, dtype, path) for chunk in chunks])


def _read_chunk(chunk: bytes, dtype: np.dtype[Any], path: Path) -> np.ndarray:
    if not chunk.startswith(_MARK):
        return np.frombuffer(chunk, dtype, count=len(chunk) // dtype.itemsize)
    offset, num_bytes = _PLACE.unpack_from(chunk, len(_MARK))
    count = num_bytes // dtype.itemsize
    try:
        array = np.fromfile(path, dtype, count, offset=offset)
    except OSError as error:
        raise unreadable(str(path), error) from error
    if array.size != count:
        raise ReadError("was changed while it was read", place=str(path))
    return array


def _slim(content: mmap.mmap, message: Span, kind: MessageType, *, depth: int) -> bytes:
    """Return a message without the large arrays in it."""
    known = {known.number: known for known in kind.fields.values()}
    parts = []
    for number, span in enumerate(field_spans(content, message)):
        if number == MAX_FIELDS:
            raise ValueError("numbers are stored one by one")
        own = known.get(span.number)
        is_large = span.wire_type == BYTES and span.num_bytes >= MIN_ARRAY_BYTES
        if is_large and own is not None and own.packed:
            place = _MARK + _PLACE.pack(span.held, span.num_bytes)
            parts.append(write_field(span.number, place))
        elif is_large and own is not None and own.type == "message" and depth < MAX_DEPTH:
            inner = _slim(content, span, kind.schema.messages[own.of], depth=depth + 1)
            parts.append(write_field(span.number, inner))
        else:
            parts.append(content[span.begin : span.end])
    return b"".join(parts)


# A schema is written as::
#
#     message BlobProto
#       1 num int32 =0; 5 data float[packed]; 7 shape BlobShape
#     enum Phase
#       TRAIN=0 TEST=1
#
# ``[]`` is repeated, ``[packed]`` an array (repeated float or double, read without a Python object for each
# number), ``!`` required, ``=`` the default. A message or enumeration that is written again is extended: by
# name, and in bytes only where the number is still free. Parsing bytes is google.protobuf's work.

MAX_MESSAGES = 100_000
"""A file with more messages is refused: each costs some hundred bytes, and the deepest nets have some
thousand."""

_ZEROS: dict[str, Any] = {
    "int32": 0,
    "int64": 0,
    "uint32": 0,
    "uint64": 0,
    "float": 0.0,
    "double": 0.0,
    "bool": False,
    "string": "",
    "bytes": b"",
}
_DTYPES: dict[str, np.dtype[Any]] = {"float": np.dtype("<f4"), "double": np.dtype("<f8")}
_FIELD = re.compile(
    r"(?P<number>\d+) (?P<name>\w+) (?P<type>[\w.]+)(?P<label>\[\]|\[packed\]|!)?(?: =(?P<default>.+))?"
)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message.

    Attributes:
        number: Its number in bytes; None if another field has taken it.
        name: Its name.
        type: ``int32`` ... ``bytes``, ``message`` or ``enum``.
        repeated: Whether it may stand more than once.
        packed: Whether its values are kept as one array.
        required: Whether a message without it is wrong.
        default: Its value when it is not set, as a message gives it.
        of: Name of the message or enumeration, for those types.
    """

    number: int | None
    name: str
    type: str
    repeated: bool = False
    packed: bool = False
    required: bool = False
    default: Any = None
    of: str = ""


@dataclass(slots=True)
class MessageType:
    """A kind of message: its name, its fields by name, and the schema that it belongs to."""

    name: str
    schema: Schema
    fields: dict[str, Field] = field(default_factory=dict)


class Schema:
    """Kinds of messages that refer to one another.

    Args:
        texts: The notation; later texts extend what earlier ones say.
        synonyms: Names that are written for others, in documents or in files of other ages; errors give the
            right one.
    """

    def __init__(self, *texts: str, synonyms: Mapping[str, str] | None = None) -> None:
        self.synonyms = dict(synonyms or {})
        self.messages: dict[str, MessageType] = {}
        self.enums: dict[str, dict[str, int]] = {}
        self._classes: dict[str, Any] = {}
        blocks = [block for text in texts for block in re.split(r"\n(?=message |enum )", text.strip())]
        pairs = [
            (head.split(), body) for head, _, body in (block.strip().partition("\n") for block in blocks)
        ]
        for (kind, name), body in pairs:
            if kind == "enum":
                values = (item.split("=") for item in body.split())
                self.enums.setdefault(name, {}).update({key: int(number) for key, number in values})
            else:
                self.messages.setdefault(name, MessageType(name, self))
        for (kind, name), body in pairs:
            if kind == "message":
                for text in filter(None, map(str.strip, body.replace("\n", " ").split(";"))):
                    self._add_field(self.messages[name], text)

    def decode(self, name: str, content: bytes, *, place: str) -> Message:
        """Return the message that some bytes hold.

        Fields that the schema does not know are skipped, as protocol buffers do.

        Args:
            name: The kind of message.
            content: The bytes.
            place: Name of the file, for errors.

        Raises:
            ReadError: The bytes are cut off, are no such message, or hold too many.
        """
        return _Tree(place).message(self._parsed(name, content, place), self.messages[name])

    def decode_file(self, name: str, path: Path, *, place: str) -> Message:
        """Return the message in a file; its large arrays are held once.

        Args:
            name: The kind of message.
            path: The file.
            place: Name of the file, for errors.

        Raises:
            ReadError: As for ``decode``; the file cannot be read, or was changed meanwhile.
        """
        slim = without_large_fields(path, self.messages[name])
        if slim is None:
            return self.decode(name, read_bytes(path), place=place)
        return _Tree(place, path).message(self._parsed(name, slim, place), self.messages[name])

    def _parsed(self, name: str, content: bytes, place: str) -> Any:
        wire = self.wire_class(name)()
        try:
            wire.ParseFromString(content)
        except DecodeError as error:
            raise ReadError(
                f"its {len(content):,} bytes are not a complete {name}: truncated, damaged, or of another "
                "type",
                place=place,
            ) from error
        return wire

    def encode(self, name: str, values: Mapping[str, Any]) -> bytes:
        """Return the bytes of a message.

        Args:
            name: The kind of message.
            values: Its fields by name, as ``Message.to_json`` gives them: enumerations by name, messages as
                mappings; arrays for packed fields. Fields without a number in bytes are left out.
        """
        wire = self.wire_class(name)()
        self._fill(wire, self.messages[name], values)
        content: bytes = wire.SerializeToString(deterministic=True)
        return content

    def _fill(self, wire: Any, kind: MessageType, values: Mapping[str, Any]) -> None:
        for key, value in values.items():
            known = kind.fields[key]
            if known.number is None:
                continue
            if known.packed:
                getattr(wire, key).append(np.ascontiguousarray(value, _DTYPES[known.type]).tobytes())
            elif known.type == "message":
                for item in value if known.repeated else [value]:
                    inner = getattr(wire, key).add() if known.repeated else getattr(wire, key)
                    inner.SetInParent()
                    self._fill(inner, self.messages[known.of], item)
            elif known.repeated:
                getattr(wire, key).extend(self._plain(item, known) for item in value)
            else:
                setattr(wire, key, self._plain(value, known))

    def _plain(self, value: Any, known: Field) -> Any:
        if known.type == "enum" and isinstance(value, str):
            return self.enums[known.of][value]
        return value.encode() if known.type == "string" else value

    def enum_value(self, name: str, number: int) -> str | int:
        """Return the name of a number of an enumeration; the number itself if it has none."""
        return next((key for key, known in self.enums[name].items() if known == number), number)

    def _add_field(self, message: MessageType, text: str) -> None:
        match = _FIELD.fullmatch(text)
        if match is None:
            raise ValueError(f"schema: message {message.name}: {text!r} is no field")
        number: int | None = int(match["number"])
        if any(known.number == number for known in message.fields.values()):
            number = None
        kind, of = self._resolve(message.name, match["type"])
        message.fields[match["name"]] = Field(
            number,
            match["name"],
            kind,
            repeated=match["label"] in {"[]", "[packed]"},
            packed=match["label"] == "[packed]" and kind in _DTYPES,
            required=match["label"] == "!",
            default=self._default(kind, of, match["default"]),
            of=of,
        )

    def _resolve(self, owner: str, name: str) -> tuple[str, str]:
        if name in _ZEROS:
            return name, ""
        for full in (f"{owner}.{name}", name):
            if full in self.enums:
                return "enum", full
            if full in self.messages:
                return "message", full
        raise ValueError(f"schema: message {owner}: unknown type {name!r}")

    def _default(self, kind: str, of: str, text: str | None) -> Any:
        if kind == "message":
            return None
        if kind == "enum":
            return text or next(iter(self.enums[of]))
        if text is None:
            return _ZEROS[kind]
        if kind == "bool":
            return text == "true"
        return text.strip('"') if kind == "string" else type(_ZEROS[kind])(text)

    def wire_class(self, name: str) -> Any:
        """Return google.protobuf's own class of a message, for those that are read by the thousand."""
        if not self._classes:
            pool = descriptor_pool.DescriptorPool()
            pool.Add(_file_descriptor(self))
            for key in self.messages:
                descriptor = pool.FindMessageTypeByName(f"netweave.{key}")
                self._classes[key] = message_factory.GetMessageClass(descriptor)
        return self._classes[name]


class Message:
    """One message: values by field name, each with its line where the source is text.

    ``message[name]`` gives the value, the default, a list for a repeated field, or an empty message; an
    array for a packed field that was read from bytes.
    Enumerations are given by name, or by number where the schema has no name for it.

    Args:
        type: The kind of message.
        line: The line on which it begins, from 1; None in binary files.

    Attributes:
        unknown: Errors for fields that the kind of message does not have and that were skipped.
    """

    __slots__ = ("_lines", "_values", "line", "type", "unknown")

    def __init__(self, type: MessageType, line: int | None = None) -> None:  # noqa: A002
        self.type = type
        self.line = line
        self.unknown: list[ReadError] = []
        self._values: dict[str, Any] = {}
        self._lines: dict[str, list[int | None]] = {}

    def __getitem__(self, name: str) -> Any:
        if name in self._values:
            return self._values[name]
        known = self.type.fields[name]
        if known.repeated:
            return []
        return self.empty(name) if known.type == "message" else known.default

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __repr__(self) -> str:
        return f"{self.type.name}({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"

    def get(self, name: str, default: Any) -> Any:
        """Return a field's value, or ``default`` where it is not set."""
        return self._values.get(name, default)

    def empty(self, name: str, line: int | None = None) -> Message:
        """Return a message of the kind of a field, not yet put into it."""
        return Message(self.type.schema.messages[self.type.fields[name].of], line)

    def line_of(self, name: str, index: int = -1) -> int | None:
        """Return the line of a field's value, or of the message where it is not set."""
        lines = self._lines.get(name)
        return self.line if not lines else lines[min(index, len(lines) - 1)]

    def put(self, name: str, value: Any, line: int | None = None) -> None:
        """Set a field, or append to a repeated one."""
        known = self.type.fields[name]
        if known.repeated:
            self._values.setdefault(name, []).append(value)
            self._lines.setdefault(name, []).append(line)
        else:
            self._values[name] = value
            self._lines[name] = [line]

    def put_array(self, name: str, array: np.ndarray) -> None:
        """Set a packed field."""
        self._values[name] = array

    def drop(self, name: str) -> None:
        """Unset a field."""
        self._values.pop(name, None)
        self._lines.pop(name, None)

    def move(self, name: str, target: Message, to: str | None = None) -> None:
        """Move a field, if it is set, into another message, with its lines."""
        if name not in self._values:
            return
        value, lines = self._values.pop(name), self._lines.pop(name, [])
        if self.type.fields[name].repeated or not target.type.fields[to or name].repeated:
            target._values[to or name], target._lines[to or name] = value, lines
        else:
            target.put(to or name, value, lines[0])

    def to_json(self) -> dict[str, Any]:
        """Return what is set, as JSON values; arrays are left out."""
        fields = {}
        for name, value in self._values.items():
            if self.type.fields[name].packed:
                continue
            fields[name] = [_json(item) for item in value] if isinstance(value, list) else _json(value)
        return fields


def _json(value: Any) -> Any:
    if isinstance(value, Message):
        return value.to_json()
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def _file_descriptor(schema: Schema) -> descriptor_pb2.FileDescriptorProto:
    """Describe the schema to google.protobuf.

    Enumerations are declared as numbers, since unknown ones would be dropped; strings as bytes, since old
    files hold such that are not UTF-8; arrays as repeated chunks of bytes, since that is what packed values
    are, and no Python number is made for each.
    """
    file = descriptor_pb2.FileDescriptorProto(name="netweave.proto", package="netweave", syntax="proto2")
    for message in schema.messages.values():
        entry = file.message_type.add(name=message.name.replace(".", "_"))
        for known in message.fields.values():
            if known.number is not None:
                made = entry.field.add(name=known.name, number=known.number, type=_wire_type(known))
                made.label = (
                    FieldDescriptorProto.LABEL_REPEATED
                    if known.repeated
                    else FieldDescriptorProto.LABEL_OPTIONAL
                )
                if known.type == "message":
                    made.type_name = f".netweave.{known.of}"
    return file


def _wire_type(known: Field) -> Any:
    if known.packed or known.type == "string":
        return FieldDescriptorProto.TYPE_BYTES
    name = "INT32" if known.type == "enum" else known.type.upper()
    return FieldDescriptorProto.Type.Value(f"TYPE_{name}")


class _Tree:
    """Our messages from google.protobuf's.

    Args:
        place: Name of the file, for errors.
        path: The file that large arrays were left in, if they were.
    """

    def __init__(self, place: str, path: Path | None = None) -> None:
        self._place = place
        self._path = path
        self._num_messages = 0

    def message(self, wire: WireMessage, kind: MessageType) -> Message:
        """Return a message with all that it holds."""
        self._num_messages += 1
        if self._num_messages > MAX_MESSAGES:
            raise ReadError(f"holds more than {MAX_MESSAGES:,} messages", place=self._place)
        message = Message(kind)
        for descriptor, value in wire.ListFields():
            known = kind.fields[descriptor.name]
            if known.packed:
                message.put_array(known.name, read_chunks(value, _DTYPES[known.type], self._path))
                continue
            for item in value if known.repeated else [value]:
                message.put(known.name, self._value(item, known, kind.schema))
        for known in kind.fields.values():
            if known.packed and known.name not in message:
                _add_unpacked(message, wire, known, place=self._place)
        return message

    def _value(self, item: Any, known: Field, schema: Schema) -> Any:
        if known.type == "message":
            return self.message(item, schema.messages[known.of])
        if known.type == "enum":
            return schema.enum_value(known.of, item)
        return item.decode("utf-8", "backslashreplace") if known.type == "string" else item


def _add_unpacked(message: Message, wire: WireMessage, known: Field, *, place: str) -> None:
    """Find values that the writer stored one by one; parsing left them, as numbers of their bits."""
    unknown: Any = UnknownFieldSet(wire)
    bits = [item.data for item in unknown if item.field_number == known.number]
    if bits:
        dtype = _DTYPES[known.type]
        try:
            message.put_array(known.name, np.array(bits, f"<u{dtype.itemsize}").view(dtype))
        except (OverflowError, TypeError, ValueError) as error:  # numbers, or bytes, of another width
            raise ReadError(
                f"a value of {known.name!r} is no {known.type}; was the file copied whole?", place=place
            ) from error
