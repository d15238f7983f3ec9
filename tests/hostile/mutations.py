"""Ways to damage a file: bytes, tokens of a text, and fields of an ONNX model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import onnx
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator

NUMBERS = (
    "-1", "0", "1", "2", "3", "7", "255", "65536", "2147483647", "2147483648", "4294967296", "-2147483649",
    "9223372036854775807", "9223372036854775808", "1" + "0" * 400, "1e400", "-0.0", "1e-40", "nan", "inf",
    "0x10", "1_0", "٣",
)  # fmt: skip
TEXTS = (
    "",
    "\0",
    "../../../../etc/hostname",
    "x" * 5000,
    "\\xff",
    "\\ud800",
    "(",
    "(1,",
    "(2147483648, 1)",
    "None",
)
SIZES = (-(2**63), -(2**31), -1, 0, 1, 2, 3, 5, 255, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1)

TOKENS = {
    "number": re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?"),
    "string": re.compile(r'"(?:[^"\\]|\\.)*"'),
    "word": re.compile(r"[A-Za-z_]\w+"),
    "mark": re.compile(r"[^\w\s]"),
}


@st.composite
def damaged_bytes(draw: st.DrawFn, content: bytes) -> bytes:
    """Return the content with some bytes flipped, cut out, copied elsewhere, or the rest cut off."""
    found = bytearray(content)
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, max(0, len(found) - 1)))
        match draw(st.sampled_from(["flip", "set", "delete", "insert", "copy", "cut"])):
            case "flip" if found:
                found[at] ^= 1 << draw(st.integers(0, 7))
            case "set" if found:
                found[at] = draw(st.sampled_from([0, 1, 127, 128, 255]))
            case "delete":
                del found[at : at + draw(st.integers(1, 40))]
            case "insert":
                found[at:at] = draw(st.binary(max_size=12))
            case "copy":
                start = draw(st.integers(0, max(0, len(found) - 1)))
                found[at:at] = found[start : start + draw(st.integers(1, 60))]
            case "cut":
                del found[at:]
    return bytes(found)


@st.composite
def damaged_text(draw: st.DrawFn, content: bytes) -> bytes:
    """Return the content with tokens replaced by others of their kind, most of them numbers."""
    text = content.decode()
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["number"] * 6 + ["string", "word", "mark"]))
        matches = list(TOKENS[kind].finditer(text))
        if matches:
            match = matches[draw(st.integers(0, len(matches) - 1))]
            other = draw(_other_token(kind, match[0], [found[0] for found in matches]))
            text = text[: match.start()] + other + text[match.end() :]
    return text.encode("utf-8", errors="surrogatepass")


def _other_token(kind: str, token: str, tokens: list[str]) -> st.SearchStrategy[str]:
    same = st.sampled_from(tokens)
    if kind == "number":
        return st.sampled_from(["-1", "0", "1", "2", "3", "5", "7", "13"]) | st.sampled_from(NUMBERS) | same
    if kind == "string":
        return same | st.sampled_from([*TEXTS, *NUMBERS]).map(lambda odd: f'"{odd}"')
    return same if kind == "word" else same | st.sampled_from(["", token * 2, "(1, "])


@st.composite
def damaged_model(draw: st.DrawFn, content: bytes) -> bytes:
    """Return an ONNX model with some fields set to odd values, and elements taken out or doubled."""
    model = onnx.ModelProto.FromString(content)
    for _ in range(draw(st.integers(1, 4))):
        fields = list(_fields(model))
        message, field = fields[draw(st.integers(0, len(fields) - 1))]
        if field.is_repeated:
            _damage_list(draw, getattr(message, field.name), field)
        elif field.message_type is not None:
            message.ClearField(field.name)
        else:
            setattr(message, field.name, draw(_odd_value(field)))
    return model.SerializeToString()


def _fields(message: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every field that is set in a message and those inside, with its message."""
    for field, value in message.ListFields():
        yield message, field
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                yield from _fields(inner)


def _damage_list(draw: st.DrawFn, values: Any, field: Any) -> None:
    place = draw(st.integers(0, len(values) - 1))
    match draw(st.sampled_from(["delete", "double", "change"])):
        case "delete":
            del values[place]
        case "double" if field.message_type is not None:
            values.add().CopyFrom(values[place])
        case "double":
            values.append(values[place])
        case "change" if field.message_type is None:
            values[place] = draw(_odd_value(field))


def _odd_value(field: Any) -> st.SearchStrategy[Any]:
    if field.enum_type is not None:
        return st.sampled_from([row.number for row in field.enum_type.values])
    if field.type == field.TYPE_STRING:
        return st.sampled_from(
            ["", "x", "y", "c", "w", "Conv", "Loop", "a*b", "9**9**9", "com.microsoft", "../x"]
        )
    if field.type == field.TYPE_BYTES:
        return st.binary(max_size=40)
    if field.type in {field.TYPE_FLOAT, field.TYPE_DOUBLE}:
        return st.sampled_from([0.0, -1.0, 1e38, float("nan"), float("inf")])
    small = field.type in {field.TYPE_INT32, field.TYPE_UINT32}
    signed = field.type not in {field.TYPE_UINT32, field.TYPE_UINT64}
    return st.sampled_from(
        [size for size in SIZES if (signed or size >= 0) and (not small or abs(size) < 2**31)]
    )
