"""Lines that make several layers, as in a class of blocks: a fix there must be right for all of them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from netweave.comparison import INPUT_ORDER, OPERATOR, OUTPUT, Edit
from netweave.fixes.python_parameters import Given, is_same_setting, parameter_with
from netweave.fixes.text import NotAppliedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from netweave.comparison import Finding
    from netweave.graph import Layer, LayerTable

OTHER_THAN_SETTINGS = frozenset({INPUT_ORDER, OPERATOR, OUTPUT})


def edits_for_all(
    layers: LayerTable, finding: Finding, wanted: Sequence[Finding], text: str
) -> tuple[Edit, ...]:
    """Return the edits that mend a layer and are right for all others that its line makes.

    Another layer may have the same finding, or the value already. Where some are to have one value and some
    another, the constructor may be given it: the step of a block, which its second convolution takes.

    Args:
        layers: B's layers.
        finding: What is to be mended.
        wanted: All findings that are mended.
        text: The text of the file in which the line is.

    Raises:
        NotAppliedError: The change would change other layers as well.
    """
    here = [layer for layer in layers.values() if finding.place_b in _places(layer)]
    types = {layer.type for layer in here if layer.name == finding.layer_b}
    # other types come from other calls on the line
    same = [layer for layer in here if layer.type in types]
    mended = {f.layer_b for f in wanted if f.place_b == finding.place_b and f.edits == finding.edits}
    others = [layer for layer in same if layer.name not in mended]
    if not others:
        return finding.edits
    are_settings = not any(edit.name in OTHER_THAN_SETTINGS for edit in finding.edits)
    if are_settings and all(_has(layer, edit) for layer in others for edit in finding.edits):
        return finding.edits
    if are_settings and len(finding.edits) == 1:
        parameter = _parameter(layers, same, finding, wanted, text)
        if parameter is not None:
            return (Edit(finding.edits[0].name, parameter),)
    names = ", ".join(sorted({layer.name for layer in others})[:4])
    line = finding.place_b.rpartition(":")[2]
    raise NotAppliedError(f"line {line} also makes {names}, which the change would change as well")


def _places(layer: Layer) -> set[str]:
    return {str(layer.origin), str(layer.definition)}


def _parameter(
    layers: LayerTable, same: Iterable[Layer], finding: Finding, wanted: Sequence[Finding], text: str
) -> str | None:
    """Return the parameter of the constructor that has the right value for each layer of a line, if any."""
    (edit,) = finding.edits
    file, _, line = finding.place_b.rpartition(":")
    values: dict[str, Any] = {}
    for layer in same:
        own = [f.edits for f in wanted if f.layer_b == layer.name and f.place_b == finding.place_b]
        new = next((e.value for edits in own for e in edits if e.name == edit.name), None)
        if new is None and edit.name not in layer.settings:
            return None
        value = _literal(new) if new is not None else layer.settings[edit.name]
        if not is_same_setting(values.setdefault(_owner(layer), value), value):
            return None  # two of one block differ
    given = [
        Given(_owner(layer), layer.definition.line or 0, layer.settings[edit.name])
        for layer in layers.values()
        if layer.definition is not None and layer.definition.file == file and edit.name in layer.settings
    ]
    return parameter_with(text, int(line), edit.name, values, given)


def _owner(layer: Layer) -> str:
    """Return the name of the module that a layer is a part of."""
    return layer.name.rpartition(".")[0]


def _has(layer: Layer, edit: Edit) -> bool:
    """Whether a layer has the value already that an edit would give it."""
    return edit.name in layer.settings and is_same_setting(layer.settings[edit.name], _literal(edit.value))


def _literal(text: str) -> Any:
    """Return a value that an edit writes; the text itself if it is more than a plain value."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text
