"""Settings of layers in protocol buffers' text format: ``.prototxt`` of Caffe and ``job.conf`` of SINGA."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from netweave.comparison import INPUT_ORDER
from netweave.comparison.fixes.text import (
    NotAppliedError,
    Replacement,
    in_order_of,
    line_end,
    permuted,
    replaced,
    start_of_line,
)
from netweave.formats.caffe.schema import BVLC
from netweave.formats.singa.schema import NET

if TYPE_CHECKING:
    from netweave.comparison import Edit

_TOKEN = re.compile(
    r"""(?P<skip>\s+|\#[^\n]*)|(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<mark>[{}<>:;,\[\]])
    |(?P<word>[^\s{}<>:;,\[\]\#"']+)""",
    re.VERBOSE,
)

EXCLUSIVE = (
    {"pad", "pad_h", "pad_w", "pad_x", "pad_y"},
    {"kernel_size", "kernel_h", "kernel_w", "kernel", "kernel_x", "kernel_y"},
    {"stride", "stride_h", "stride_w", "stride_x", "stride_y"},
)
"""Settings that say the same of both axes or of one; a new one takes the place of all others."""

PARAMS: dict[str, str] = {
    name.replace("_", ""): name for name in re.findall(r"\b(\w+_(?:param|conf)) \w+", BVLC + NET)
}
"""Messages of settings by their names without ``_``, as the types of layers are written in many ways."""

EXCEPTIONS = {"deconvolution": "convolution"}
"""Layers whose settings are another layer's."""


@dataclass(slots=True)
class _Field:
    """A field: its name, and what stands after it.

    Attributes:
        name: The name.
        start: Where the name begins.
        end: The first character after the value.
        value: Where the value begins; of a message, its inside.
        inner: Fields of a message; None for a plain value.
        inner_end: Where the closing bracket of a message stands.
    """

    name: str
    start: int
    end: int = 0
    value: int = 0
    inner: list[_Field] | None = None
    inner_end: int = 0


@dataclass(slots=True)
class _Scanner:
    """The fields of a text from a place on."""

    text: str
    tokens: list[tuple[str, str, int]] = field(default_factory=list)
    at: int = 0

    @classmethod
    def of(cls, text: str, start: int) -> _Scanner:
        return cls(text, list(_tokens(text, start)))

    def field(self) -> _Field:
        """Read one field.

        Raises:
            NotAppliedError: There is none.
        """
        kind, name, start = self._next()
        if kind != "word":
            raise NotAppliedError("no layer stands at the line that was found; it is not the file compared")
        field = _Field(name, start)
        _, mark, place = self._next()
        if mark == ":":
            _, mark, place = self._next()
        if mark in "{<":
            field.value, field.inner = place + 1, self._fields()
            field.inner_end = self.tokens[self.at - 1][2]
            field.end = field.inner_end + 1
            return field
        field.value = place
        field.end = place + len(mark)
        if mark == "[":
            while self._next()[1] != "]":
                pass
            field.end = self.tokens[self.at - 1][2] + 1
        return field

    def _fields(self) -> list[_Field]:
        fields = []
        while self._peek() not in "}>":
            if self._peek() in ";,":
                self._next()
                continue
            fields.append(self.field())
        self._next()
        return fields

    def _peek(self) -> str:
        if self.at >= len(self.tokens):
            raise NotAppliedError("the file ends inside a layer")
        return self.tokens[self.at][1]

    def _next(self) -> tuple[str, str, int]:
        self._peek()
        self.at += 1
        return self.tokens[self.at - 1]


def _tokens(text: str, start: int, *, whole: bool = False) -> Iterator[tuple[str, str, int]]:
    depth = 0
    while match := _TOKEN.match(text, start):
        kind, token = str(match.lastgroup), match.group()
        start = match.end()
        if kind == "skip":
            continue
        yield kind, token, match.start()
        depth += (token in "{<") - (token in "}>") if kind == "mark" else 0
        if kind == "mark" and token in "}>" and depth <= 0 and not whole:
            return


def edit_prototxt(text: str, line: int, layer: str, edits: Sequence[Edit]) -> str:
    """Return a text with settings of the layer at a line changed.

    Raises:
        NotAppliedError: The layer or the place of a setting is not known.
    """
    field = _Scanner.of(text, start_of_line(text, line)).field()
    if field.inner is None:
        raise NotAppliedError(f"no layer stands at line {line}; it is not the file that was compared")
    changes: list[Replacement] = []
    added: dict[int, list[str]] = {}
    for edit in edits:
        _set(text, field, edit, edits, changes, added)
    ends = {place: _written(text, field, place, lines) for place, lines in added.items()}
    return replaced(text, [*changes, *ends.values()])


@dataclass(frozen=True, slots=True)
class LayerText:
    """The place of a layer in a text, with its inputs and outputs.

    Attributes:
        name: Its name.
        start: Its first character.
        end: The first character after it.
        bottoms: Blobs that it reads.
        tops: Blobs that it makes.
    """

    name: str
    start: int
    end: int
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]


def find_layers(text: str) -> list[LayerText]:
    """Return the layers of a net of Caffe, in order.

    Raises:
        NotAppliedError: The text is cut off.
    """
    scanner = _Scanner(text, list(_tokens(text, 0, whole=True)))
    layers = []
    while scanner.at < len(scanner.tokens):
        if scanner.tokens[scanner.at][1] in ";,":
            scanner.at += 1
            continue
        layer = scanner.field()
        if layer.name in {"layer", "layers"} and layer.inner is not None:
            values = [(f.name, text[f.value : f.end].strip("\"'")) for f in layer.inner if f.inner is None]
            of = {key: tuple(v for k, v in values if k == key) for key in ("name", "bottom", "top")}
            layers.append(LayerText("".join(of["name"]), layer.start, layer.end, of["bottom"], of["top"]))
    return layers


def _set(
    text: str,
    layer: _Field,
    edit: Edit,
    edits: Sequence[Edit],
    changes: list[Replacement],
    added: dict[int, list[str]],
) -> None:
    """Note what changes for a setting: its own value, those that it stands for, or a new line."""
    fields = layer.inner or []
    if edit.name == INPUT_ORDER:
        inputs = [f for f in fields if f.name in {"bottom", "srclayers"}]
        names = permuted([text[f.value : f.end] for f in inputs], in_order_of(edit))
        changes += [Replacement(f.value, f.end, name) for f, name in zip(inputs, names, strict=True)]
        return
    owner = layer
    if edit.name != "type":
        owner = next(
            (inner for inner in fields if inner.inner and any(f.name == edit.name for f in inner.inner)),
            layer,
        )
        if owner is layer and not any(f.name == edit.name for f in fields):
            owner = _params(text, layer) or layer
    told = {other.name for other in edits}
    rivals = next((names - told for names in EXCLUSIVE if edit.name in names), set())
    own = [f for f in owner.inner or [] if f.name == edit.name]
    for gone in [*own[1:], *(f for f in owner.inner or [] if f.name in rivals)]:
        if not any(change.start <= gone.start < change.end for change in changes):
            changes.append(_removal(text, gone))
    if own:
        changes.append(Replacement(own[0].value, own[0].end, edit.value))
    elif owner is layer and edit.name != "type":
        name = _params_name(text, layer)
        added.setdefault(layer.inner_end, []).append(f"{name} {{ {edit.name}: {edit.value} }}")
    else:
        added.setdefault(owner.inner_end, []).append(f"{edit.name}: {edit.value}")


def _params(text: str, layer: _Field) -> _Field | None:
    """Return the message of a layer's settings, if there is one."""
    name = _params_name(text, layer)
    return next((f for f in layer.inner or [] if f.name == name and f.inner is not None), None)


def _params_name(text: str, layer: _Field) -> str:
    """Return what the message of a layer's settings is called, for ``Pooling``, ``POOLING``, ``kPooling``."""
    fields = [f for f in layer.inner or [] if f.name == "type"]
    if not fields:
        raise NotAppliedError("the layer has no type")
    kind = text[fields[0].value : fields[0].end].strip("\"'")
    is_singa = bool(re.match(r"k[A-Z]", kind))
    plain = (kind.removeprefix("k") if is_singa else kind).replace("_", "").lower()
    plain = EXCEPTIONS.get(plain, plain)
    name: str | None = PARAMS.get(f"{plain}conf" if is_singa else f"{plain}param")
    if name is None:
        raise NotAppliedError(f"where settings of a layer of type {kind} stand is not known")
    return name


def _removal(text: str, gone: _Field) -> Replacement:
    """Return the change that takes a field away, with its line if nothing else stands there."""
    start = text.rfind("\n", 0, gone.start) + 1
    end = text.find("\n", gone.end)
    end = len(text) if end < 0 else end + 1
    if not text[start : gone.start].strip() and not text[gone.end : end].strip(" \t\r\n;,"):
        return Replacement(start, end, "")
    return Replacement(gone.start, gone.end + (text[gone.end : gone.end + 1] in {" ", ";", ","}), "")


def _written(text: str, layer: _Field, place: int, lines: Sequence[str]) -> Replacement:
    """Return the change that adds lines in front of a closing bracket, indented as the others are."""
    start = text.rfind("\n", 0, place) + 1
    if text[start:place].strip():  # the bracket stands behind other fields
        return Replacement(place, place, "".join(f"{line} " for line in lines))
    indent = text[start:place] + "  "
    return Replacement(start, start, "".join(f"{indent}{line}{line_end(text)}" for line in lines))
