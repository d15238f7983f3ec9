"""Files of TFLite, written field by field: what no converter writes, to be read or refused."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from netweave.formats.tensorflow.lite.program import OPERATORS, SCHEMA

if TYPE_CHECKING:
    from netweave.files.flatbuffers import FlatSchema

FORMS = {"bool": "?", "int8": "b", "uint8": "B", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q"}
FORMS |= {"float32": "f"}


class Writer:
    """Writes tables behind one another: each begins with its own table of offsets."""

    def __init__(self, schema: FlatSchema = SCHEMA) -> None:
        self.schema = schema
        self.content = bytearray(8)

    def file(self, name: str, values: dict[str, Any], identifier: bytes = b"TFL3") -> bytes:
        self.content[4:8] = identifier
        struct.pack_into("<I", self.content, 0, self.table(name, values))
        return bytes(self.content)

    def table(self, name: str, values: dict[str, Any]) -> int:
        fields = {field.name: field for field in self.schema.tables[name]}
        count = max((field.slot for field in fields.values()), default=-1) + 1
        start = len(self.content)
        position = start + 4 + 2 * count
        self.content += struct.pack("<HH", 4 + 2 * count, 4) + bytes(2 * count) + bytes(4 + 8 * count)
        struct.pack_into("<i", self.content, position, position - start)
        for key, value in values.items():
            at = 4 + 8 * fields[key].slot
            struct.pack_into("<H", self.content, start + 4 + 2 * fields[key].slot, at)
            self._put(fields[key].type, fields[key].is_vector, position + at, value)
        return position

    def _put(self, kind: str, is_vector: bool, at: int, value: Any) -> None:
        if kind in self.schema.unions:
            kind, value = value
        if not is_vector and kind in self.schema.enums:
            numbers = {word: number for number, word in self.schema.enums[kind].items()}
            struct.pack_into("<b", self.content, at, numbers.get(value, value))
        elif not is_vector and kind in FORMS:
            struct.pack_into(f"<{FORMS[kind]}", self.content, at, value)
        else:
            place = self._vector(kind, value) if is_vector or kind == "string" else self.table(kind, value)
            struct.pack_into("<I", self.content, at, place - at)

    def _vector(self, kind: str, values: Any) -> int:
        if kind == "string":
            values, kind = values.encode(), "uint8"
        place = len(self.content)
        form = FORMS.get(kind, "I")
        self.content += struct.pack("<I", len(values)) + bytes(struct.calcsize(f"<{form}") * len(values))
        if kind in FORMS:
            struct.pack_into(f"<{len(values)}{form}", self.content, place + 4, *values)
            return place
        for index, value in enumerate(values):
            at = place + 4 + 4 * index
            struct.pack_into("<I", self.content, at, self.table(kind, value) - at)
        return place


CODES = {name: number for number, name in OPERATORS.items()}
UNIONS = {name: number for number, name in SCHEMA.unions["BuiltinOptions"].items()}


def tensor(
    name: str, shape: list[int], buffer: int = 0, kind: str = "FLOAT32", **more: Any
) -> dict[str, Any]:
    return {"name": name, "shape": shape, "buffer": buffer, "type": kind, **more}


def model(
    op: str,
    tensors: list[dict[str, Any]],
    inputs: list[int],
    *,
    options: tuple[str, dict[str, Any]] | None = None,
    buffers: list[bytes] = (),
    **more: Any,
) -> bytes:
    """A net of one operator, which makes the last tensor of the first one."""
    operator: dict[str, Any] = {"inputs": inputs, "outputs": [len(tensors) - 1]}
    if options is not None:
        operator |= {"builtin_options_type": UNIONS[options[0]], "builtin_options": options}
    code = CODES.get(op, 0)
    kind = {"builtin_code": code, "deprecated_builtin_code": min(code, 127), "version": 1}
    if op not in CODES:
        kind = {"builtin_code": 32, "deprecated_builtin_code": 32, "custom_code": op}
    graph = {"tensors": tensors, "inputs": [0], "outputs": [len(tensors) - 1], "operators": [operator]}
    stored = [{}, *({"data": list(content)} for content in buffers)]
    values = {"version": 3, "operator_codes": [kind], "subgraphs": [graph], "buffers": stored}
    return Writer().file("Model", values | more)
