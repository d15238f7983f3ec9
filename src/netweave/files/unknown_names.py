"""Messages for names that Netweave does not know: one form for the readers of all formats."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from netweave.errors import ReadError, UnsupportedError, UsageError
from netweave.graph.summary import names_text

MOST_TYPES = 20
"""How many unknown types a message names."""

MOST_LAYERS = 3
"""How many layers of one unknown type a message names."""


@dataclass(frozen=True, slots=True)
class UnknownLayer:
    """A layer, or an operator, of a type that no rule lowers.

    Attributes:
        type: The type as the file has it.
        name: Its name.
        line: Its line in the file, where that is text.
    """

    type: str
    name: str
    line: int | None = None

    def __str__(self) -> str:
        name = repr(self.name) if self.name else ""
        line = f"line {self.line}" if self.line is not None else ""
        return " on ".join(filter(None, (name, line))) or "without a name"


def refuse_unknown_layers(
    unknown: Iterable[UnknownLayer],
    *,
    place: str,
    noun: str,
    known: Iterable[str] = (),
    reasons: Mapping[str, str] | None = None,
    how_to: str | None = None,
    advice: str = "",
) -> None:
    """Raise one error that names every unknown type once, with its first layers; none if there are none.

    Args:
        unknown: The layers, in the order of the file.
        place: Name of the file.
        noun: What the framework calls them: ``layer`` or ``operator``.
        known: The types that are read, for a suggestion where a name is mistyped.
        reasons: What is known of types that are not read, such as ``a layer of the Intel branch``.
        how_to: The page that tells how one is added.
        advice: What else the reader of the message can do.

    Raises:
        UnsupportedError: There is an unknown layer.
    """
    by_type: dict[str, list[UnknownLayer]] = {}
    for layer in unknown:
        by_type.setdefault(layer.type, []).append(layer)
    if not by_type:
        return
    known, reasons = list(known), reasons or {}
    rows = [
        _row(kind, layers, reasons.get(kind) or _suggestion(kind, known))
        for kind, layers in list(by_type.items())[:MOST_TYPES]
    ]
    if len(by_type) > MOST_TYPES:
        rows.append(f"and {len(by_type) - MOST_TYPES} more types")
    count = f"{len(by_type)} {noun} types" if len(by_type) > 1 else f"one {noun} type"
    see = f"; see docs/how-to/{how_to}.md" if how_to else f"; {advice}" if advice else ""
    raise UnsupportedError(f"has {count} that Netweave does not read: {'; '.join(rows)}{see}", place=place)


def _row(kind: str, layers: Sequence[UnknownLayer], note: str) -> str:
    shown = ", ".join(map(str, layers[:MOST_LAYERS]))
    more = f" and {len(layers) - MOST_LAYERS} more" if len(layers) > MOST_LAYERS else ""
    return f"{kind or 'no type at all'} ({shown}{more}{f'; {note}' if note else ''})"


def _suggestion(kind: str, known: Sequence[str]) -> str:
    """Return what a type may be a slip of the pen for: one that differs in a letter or in capitals."""
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(kind.lower(), by_lower, n=1, cutoff=0.8)
    return f"did you mean {by_lower[near[0]]!r}?" if near else ""


@dataclass(frozen=True, slots=True)
class UnknownSetting:
    """A setting that a layer of its type does not have.

    Attributes:
        name: Its name.
        value: Its value, as the file has it.
        layer: The layer.
        known: The settings that it has, for a suggestion where the name is mistyped.
    """

    name: str
    value: object
    layer: UnknownLayer
    known: Iterable[str] = ()


def refuse_unknown_settings(unknown: Iterable[UnknownSetting], *, place: str) -> None:
    """Raise one error for all settings that no rule asked for; none if there are none.

    A mistyped setting that is skipped makes another net than the one meant.

    Args:
        unknown: The settings, in the order of the file.
        place: Name of the file.

    Raises:
        ReadError: There is an unknown setting.
    """
    unknown = list(unknown)
    if not unknown:
        return
    rows = []
    for setting in unknown[:MOST_TYPES]:
        suggestion = _suggestion(setting.name, list(setting.known))
        note = f"; {suggestion}" if suggestion else ""
        rows.append(f"{setting.name}={setting.value!r:.40} ({setting.layer.type} {setting.layer}{note})")
    more = f"; and {len(unknown) - MOST_TYPES} more" if len(unknown) > MOST_TYPES else ""
    raise ReadError(f"has settings that its layers do not know: {'; '.join(rows)}{more}", place=place)


def check_input_names(given: Iterable[str], inputs: Iterable[str], *, place: str) -> None:
    """Refuse sizes, data or names that a caller gives for something that is no input of a net.

    Args:
        given: The names that the caller gives.
        inputs: The names of the net's inputs.
        place: Name of the net's file.

    Raises:
        UsageError: A name is not that of an input.
    """
    inputs = list(inputs)
    unknown = [name for name in given if name not in inputs]
    if unknown:
        there = names_text(inputs, most=10) or "none"
        raise UsageError(
            f"{place}: no input named {names_text(unknown)}; the inputs are {there}",
            unknown_inputs=tuple(unknown),
        )
