"""Layers of a phase: ``neuralnet.cc`` (Create)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.errors import ReadError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.files.protobuf import Message

PHASES = {"TRAIN": "kTrain", "VALIDATE": "kVal", "TEST": "kTest"}
"""SINGA's names of the phases."""


def included(layers: Sequence[Message], phase: str, *, place: str) -> list[Message]:
    """Return the layers that are part of a phase, in the order of the file.

    Args:
        layers: All layers of the file.
        phase: One of ``PHASES``.
        place: Name of the file, for errors.

    Raises:
        ReadError: Layers have rules of both sorts, or two of one name are left.
    """
    with_rules = [layer for layer in layers if layer["include"] or layer["exclude"]]
    for layer in with_rules:
        if bool(layer["include"]) != bool(with_rules[0]["include"]):
            first = with_rules[0]
            raise ReadError(
                f"layer {layer['name']!r} has '{_sort(layer)}' and layer {first['name']!r} (line "
                f"{first.line}) '{_sort(first)}', expected only one of the two in all layers",
                place=f"{place}:{layer.line_of(_sort(layer))}",
            )
    name = PHASES[phase]
    kept = [layer for layer in layers if _is_in(layer, name)]
    lines: dict[str, int | None] = {}
    for layer in kept:
        if layer["name"] in lines:
            raise ReadError(
                f"layer {layer['name']!r} appears again in phase {name}, first on line "
                f"{lines[layer['name']]}; give it another name, or 'include' it in another phase",
                place=f"{place}:{layer.line}",
            )
        lines[layer["name"]] = layer.line
    if not kept:
        raise ReadError(f"no layer is part of the net in phase {name}", place=place)
    return kept


def _is_in(layer: Message, name: str) -> bool:
    return name in layer["include"] if layer["include"] else name not in layer["exclude"]


def _sort(layer: Message) -> str:
    return "include" if layer["include"] else "exclude"
