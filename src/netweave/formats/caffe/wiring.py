"""Layers of a phase, and the values that each of them reads and writes.

Rules: ``net.cpp`` (FilterNet, StateMeetsRule, AppendTop, AppendBottom). Layers run in the order of the file.
A layer that writes over its own bottom makes a new value here: the last one has the blob's plain name, those
before it are ``<blob>@<layer that wrote it>``; an input of the net always keeps the plain name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.errors import ReadError
from netweave.formats.caffe.inputs import brings_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.files import Source
    from netweave.files.protobuf import Message


@dataclass(frozen=True, slots=True)
class State:
    """Caffe's NetState: phase, level and stages for which a net is read."""

    phase: str
    level: int
    stages: frozenset[str]


@dataclass(frozen=True, slots=True)
class Wired:
    """One layer with the names of the values that it reads and writes."""

    spec: Message
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wiring:
    """The layers of a net, and the values that none of them reads, in the order of their blobs' names."""

    layers: tuple[Wired, ...]
    outputs: tuple[str, ...]


@dataclass(slots=True)
class _Version:
    """One value that a blob has on its way through the net."""

    blob: str
    writer: str
    is_input: bool
    read: bool = False
    name: str = ""


def net_state(net: Message, source: Source) -> State:
    """Return the state: what the caller says over what the net says; stages add up."""
    own = net["state"]
    return State(source.phase, source.level or own["level"], frozenset([*own["stage"], *source.stages]))


def included(net: Message, state: State, *, place: str) -> list[Message]:
    """Return the layers that are part of the net in a state.

    Raises:
        ReadError: A layer has rules of both sorts.
    """
    kept = []
    for layer in net["layer"]:
        include, exclude = layer["include"], layer["exclude"]
        if include and exclude:
            raise ReadError(
                "has both 'include' and 'exclude', expected only one of the two", place=_at(layer, place)
            )
        rules = include or exclude
        if (
            any(_is_met(rule, state) for rule in rules)
            if include
            else not any(_is_met(r, state) for r in rules)
        ):
            kept.append(layer)
    return kept


def _is_met(rule: Message, state: State) -> bool:
    return (
        ("phase" not in rule or rule["phase"] == state.phase)
        and ("min_level" not in rule or state.level >= rule["min_level"])
        and ("max_level" not in rule or state.level <= rule["max_level"])
        and state.stages.issuperset(rule["stage"])
        and state.stages.isdisjoint(rule["not_stage"])
    )


def wire(layers: Sequence[Message], *, of: Sequence[Message], place: str) -> Wiring:
    """Resolve the names of blobs into values.

    Args:
        layers: The layers that are part of the net.
        of: Those and the ones that its rules leave out, to say so where one is missed.
        place: Name of the file, for errors.

    Raises:
        ReadError: A bottom is not there, or a top is made twice.
    """
    current: dict[str, _Version] = {}
    versions: list[_Version] = []
    ends: list[tuple[list[_Version], list[_Version]]] = []
    for index, layer in enumerate(layers):
        bottoms = []
        for i, blob in enumerate(layer["bottom"]):
            if blob not in current:
                why = _why_missing(blob, layers[index:], of)
                line = layer.line_of("bottom", i)
                raise ReadError(f"reads the blob {blob!r}, but {why}", place=_at(layer, place, line))
            current[blob].read = True
            bottoms.append(current[blob])
        tops = []
        for number, blob in enumerate(_top_names(layer, current)):
            in_place = number < len(layer["bottom"]) and layer["bottom"][number] == blob
            if blob in current and not in_place:
                raise ReadError(
                    f"writes the blob {blob!r}, which layer {current[blob].writer!r} has already written",
                    place=_at(layer, place, layer.line_of("top", number)),
                )
            tops.append(_Version(blob, layer["name"], is_input=brings_data(layer)))
            current[blob] = tops[-1]
        versions += tops
        ends.append((bottoms, tops))
    _name(versions)
    wired = (
        Wired(layer, tuple(v.name for v in bottoms), tuple(v.name for v in tops))
        for layer, (bottoms, tops) in zip(layers, ends, strict=True)
    )
    unread = sorted(
        (version for version in versions if not version.read and not version.is_input), key=lambda v: v.blob
    )
    return Wiring(tuple(wired), tuple(version.name for version in unread))


def _why_missing(blob: str, later: Sequence[Message], of: Sequence[Message]) -> str:
    for layer in later:
        if blob in layer["top"]:
            line = f" (line {layer.line})" if layer.line else ""
            return (
                f"layer {layer['name']!r}{line} makes it only here or later; layers stand in the order in "
                "which they run, without cycles"
            )
    left_out = [f"{layer['name']!r} ({_rules(layer)})" for layer in of if blob in layer["top"]]
    if left_out:
        return f"what makes it is left out here: {', '.join(left_out)}; choose a phase, stage or level"
    return "no layer before makes it"


def _rules(layer: Message) -> str:
    rules = [
        " ".join(f"{name}: {value}" for name, value in rule.items())
        for sort in ("include", "exclude")
        for rule in layer.to_json().get(sort, [])
    ]
    line = f"line {layer.line}; " if layer.line else ""
    return f"{line}{'include' if layer['include'] else 'exclude'} {' or '.join(rules)}"


def _top_names(layer: Message, current: dict[str, _Version]) -> list[str]:
    """Return the names of a layer's tops; a loss without any makes one all the same."""
    tops: list[str] = layer["top"]
    if tops or not layer["type"].endswith("Loss"):
        return tops
    name = layer["name"] or "(automatic)"
    return [f"{name}@loss" if name in current else name]


def _name(versions: Sequence[_Version]) -> None:
    plain: dict[str, _Version] = {}
    for version in versions:
        if version.blob not in plain or not plain[version.blob].is_input:
            plain[version.blob] = version
    for version in versions:
        is_plain = plain[version.blob] is version
        version.name = version.blob if is_plain else f"{version.blob}@{version.writer}"


def _at(layer: Message, place: str, line: int | None = None) -> str:
    line = line or layer.line
    where = place if line is None else f"{place}:{line}"
    return f"{where}: layer {layer['name']!r} ({layer['type']})"
