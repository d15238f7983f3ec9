"""Lines that make several layers, as in a class of blocks: a fix there must be right for all of them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netweave.comparison import INPUT_ORDER, OPERATOR, OUTPUT, Edit
from netweave.comparison.fixes.python_callers import Passed, parameter_at, parameter_of_caller
from netweave.comparison.fixes.python_source import Given, is_same_setting, parameter_with
from netweave.comparison.fixes.text import NotAppliedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from netweave.comparison import Finding
    from netweave.graph import Layer, LayerTable

    Reader = Callable[[str], str]

OTHER_THAN_SETTINGS = frozenset({INPUT_ORDER, OPERATOR, OUTPUT})


@dataclass(frozen=True, slots=True)
class Change:
    """A change to a text, and its place.

    Attributes:
        file: The file.
        line: The line.
        edits: What changes in the call that makes the layer; the one setting that ``passed`` gives.
        passed: The parameter that is given another value at the line; None if it is the layer's own call.
        kind: Type of the layers that the line makes and that are all to change.
    """

    file: str
    line: int
    edits: tuple[Edit, ...]
    passed: Passed | None = None
    kind: str = ""


def changes_for_all(
    layers: LayerTable, finding: Finding, wanted: Sequence[Finding], read: Reader
) -> list[Change]:
    """Return the changes that mend a layer and are right for all others that its line makes.

    Another layer may have the same finding, or the value already. Where some are to have one value and some
    another, the constructor may be given it: the step of a block, which its second convolution takes. Or the
    line is in a function that is given it, and the change goes to the line that calls this.

    Args:
        layers: B's layers.
        finding: What is to be mended.
        wanted: All findings that are mended.
        read: Returns the text of a file.

    Raises:
        NotAppliedError: The change would change other layers as well.
    """
    here = [layer for layer in layers.values() if finding.place_b in _places(layer)]
    types = {layer.type for layer in here if layer.name == finding.layer_b}
    # other types come from other calls on the line
    line = _Line(finding, wanted, [layer for layer in here if layer.type in types], layers)
    own: list[Edit] = []
    changes: list[Change] = []
    for edit in finding.edits:
        others = [layer for layer in line.same if not line.is_right(layer, edit)]
        if not others:
            own.append(edit)
        elif edit.name not in OTHER_THAN_SETTINGS and (parameter := line.parameter(edit, read)) is not None:
            own.append(Edit(edit.name, parameter))
        elif (
            edit.name not in OTHER_THAN_SETTINGS and (change := line.change_of_caller(edit, read)) is not None
        ):
            changes.append(change)
        else:
            names = ", ".join(sorted({layer.name for layer in others})[:4])
            raise NotAppliedError(
                f"line {line.number} also makes {names}, which the change would change as well"
            )
    kind = next(iter(types), "")
    return [*([Change(line.file, line.number, tuple(own), kind=kind)] if own else []), *changes]


@dataclass(frozen=True, slots=True)
class _Line:
    """A line at which a layer is mended.

    Attributes:
        finding: What is to be mended.
        wanted: All findings that are mended.
        same: The layers that the line makes by the same call, as far as their types tell.
        layers: All layers.
    """

    finding: Finding
    wanted: Sequence[Finding]
    same: Sequence[Layer]
    layers: LayerTable

    @property
    def file(self) -> str:
        return self.finding.place_b.rpartition(":")[0]

    @property
    def number(self) -> int:
        return int(self.finding.place_b.rpartition(":")[2])

    def is_right(self, layer: Layer, edit: Edit) -> bool:
        """Return whether a value is right for a layer of the line: it is to have it, or has it."""
        return edit in self._new(layer) or (not self._new(layer, edit.name) and _has(layer, edit))

    def _new(self, layer: Layer, name: str = "") -> list[Edit]:
        """Return what a layer of the line is to have, or that for one setting."""
        own = [f for f in self.wanted if f.layer_b == layer.name and f.place_b == self.finding.place_b]
        return [edit for finding in own for edit in finding.edits if name in {"", edit.name}]

    def parameter(self, edit: Edit, read: Reader) -> str | None:
        """Return the parameter of the constructor that has the right value for each layer, if any."""
        values: dict[str, Any] = {}
        for layer in self.same:
            new = [_literal(one.value) for one in self._new(layer, edit.name)]
            if not new and edit.name not in layer.settings:
                return None
            value = new[0] if new else layer.settings[edit.name]
            if not is_same_setting(values.setdefault(_owner(layer), value), value):
                return None  # two of one block differ
        given = [
            Given(_owner(layer), layer.definition.line or 0, layer.settings[edit.name])
            for layer in self.layers.values()
            if layer.definition is not None
            and layer.definition.file == self.file
            and edit.name in layer.settings
        ]
        return parameter_with(read(self.file), self.number, edit.name, values, given)

    def change_of_caller(self, edit: Edit, read: Reader) -> Change | None:
        """Return the change where a function is called that makes the layer, and others for other callers."""
        own = next((layer for layer in self.same if layer.name == self.finding.layer_b), None)
        if own is None or str(own.definition) != self.finding.place_b:
            return None
        passed = parameter_at(read(self.file), self.number, own.name, [edit])
        for depth, caller in enumerate(own.callers, start=1):
            if passed is None or caller.line is None:
                return None
            together = [layer for layer in self.same if layer.callers[:depth] == own.callers[:depth]]
            if all(self.is_right(layer, edit) for layer in together):
                return Change(caller.file, caller.line, (edit,), passed)
            passed = parameter_of_caller(read(caller.file), caller.line, passed)
        return None


def _places(layer: Layer) -> set[str]:
    return {str(layer.origin), str(layer.definition)}


def _owner(layer: Layer) -> str:
    """Return the name of the module that a layer is a part of."""
    return layer.name.rpartition(".")[0]


def _has(layer: Layer, edit: Edit) -> bool:
    """Return whether a layer has the value already that an edit would give it."""
    return edit.name in layer.settings and is_same_setting(layer.settings[edit.name], _literal(edit.value))


def _literal(text: str) -> Any:
    """Return a value that an edit writes; the text itself if it is more than a plain value."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text
