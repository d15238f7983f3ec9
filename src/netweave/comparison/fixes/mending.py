"""Mending of a net."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.comparison import INPUT_ORDER, OUTPUT
from netweave.comparison.fixes.cfg import edit_cfg
from netweave.comparison.fixes.prototxt import LayerText, edit_prototxt, find_layers
from netweave.comparison.fixes.python_callers import edit_caller
from netweave.comparison.fixes.python_source import edit_all_calls, edit_python
from netweave.comparison.fixes.shared_lines import Change, changes_for_all
from netweave.comparison.fixes.symbol_json import edit_symbol, items_of, members_of
from netweave.comparison.fixes.text import NotAppliedError, Replacement, SeveralCallsError, line_end, replaced
from netweave.formats.dialect import dialect_of

if TYPE_CHECKING:
    from netweave.comparison import Comparison, Edit, Finding
    from netweave.comparison.fixes.onnx_model import ModelEdits, StoredModel


# Layers of Caffe that work in place, with the same blob at bottom and top, can be put in alone. So can a
# line of Python where the texts around it are the same.


def copy_layer(text_a: str, text_b: str, name: str) -> str:
    """Return B's text with a layer of A put behind the layer that it follows in A.

    Raises:
        NotAppliedError: The layer does not work in place, or B does not have the layer that it follows.
    """
    layers_a, layers_b = find_layers(text_a), find_layers(text_b)
    place = next((n for n, layer in enumerate(layers_a) if layer.name == name), None)
    if place is None:
        raise NotAppliedError(f"the first net's file has no layer {name!r}")
    layer = layers_a[place]
    if len(layer.bottoms) != 1 or layer.bottoms != layer.tops:
        raise NotAppliedError(f"{name} does not work in place, so that other layers would have to change too")
    if any(other.name == name for other in layers_b):
        raise NotAppliedError(f"the file has another layer called {name!r}")
    before = next((other for other in layers_a[:place][::-1] if layer.bottoms[0] in other.tops), None)
    host = _counterpart(before, layers_b, layer.bottoms[0])
    block = text_a[layer.start : layer.end].replace("\r\n", "\n").replace("\n", line_end(text_b))
    return replaced(text_b, [Replacement(host.end, host.end, line_end(text_b) + block)])


def _counterpart(before: LayerText | None, layers: list[LayerText], blob: str) -> LayerText:
    """Return B's layer of the same name that makes the same blob."""
    names = {before.name} if before is not None else set()
    counterpart = next((layer for layer in layers if layer.name in names and blob in layer.tops), None)
    if counterpart is None:
        raise NotAppliedError(f"the file has no layer that makes {blob!r} as the first net's does")
    return counterpart


def copy_line(text_a: str, text_b: str, line: int) -> str:
    """Return B's text with a line of A where A has it, in place of the one line that B has there, if any.

    Args:
        text_a: Python source.
        text_b: Python source.
        line: The line of A's text, from 1.

    Raises:
        NotAppliedError: The texts are not the same around the line, B has the line, or lacks what it uses.
    """
    lines_a, lines_b = text_a.splitlines(), text_b.splitlines()
    stretches = SequenceMatcher(None, lines_a, lines_b, autojunk=False).get_opcodes()
    kind, a, a_end, b, b_end = next(stretch for stretch in stretches if line <= stretch[2])
    if kind == "equal":
        raise NotAppliedError(f"the file has the first net's line {line} already")
    if a_end - a != 1 or b_end - b > 1:
        raise NotAppliedError(f"the two files are not the same around line {line} of the first net's")
    used = set(re.findall(r"\bself\.\w+", lines_a[a]))
    if unknown := sorted(name for name in used if not re.search(rf"\b{re.escape(name)}\b", text_b)):
        raise NotAppliedError(f"line {line} of the first net's file needs {', '.join(unknown)}")
    lines_b[b:b_end] = lines_a[a:a_end]
    end = line_end(text_b)
    return end.join(lines_b) + (end if text_b.endswith("\n") else "")


# Nodes refer to each other by their numbers, so that all references to nodes behind the new one move by
# one. The text keeps its form.

Place = tuple[int, int]
"""Start and end of a value in a text."""


@dataclass(frozen=True, slots=True)
class _Symbol:
    """A symbol and its text.

    Attributes:
        text: The text.
        nodes: The nodes.
        places: Where each node stands.
        members: Where the value of each member of the file stands.
    """

    text: str
    nodes: list[dict[str, Any]]
    places: list[Place]
    members: dict[str, Place]

    @classmethod
    def of(cls, text: str) -> _Symbol:
        """Read a symbol.

        Raises:
            NotAppliedError: It is none.
        """
        try:
            members = {key: (start, end) for key, start, end in members_of(text, text.index("{"))}
            places = list(items_of(text, members["nodes"][0]))
            nodes = [json.loads(text[start:end]) for start, end in places]
            for node in nodes:
                _ = node["name"], [int(number) for number, *_ in node["inputs"]]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise NotAppliedError(f"the file is no symbol: {error}") from error
        return cls(text, nodes, places, members)

    def number(self, name: str) -> int:
        """Return the number of a node.

        Raises:
            NotAppliedError: There is none of the name.
        """
        for number, node in enumerate(self.nodes):
            if node["name"] == name:
                return number
        raise NotAppliedError(f"the file has no node {name!r}, as the first net's has")

    def entries(self) -> Iterator[tuple[tuple[str, int], list[int], Place]]:
        """Yield the references to nodes: who refers, the reference, and where its number stands.

        An input refers as its node's name and its place there, an output of the net as ``""`` and its own.
        """
        for node, (start, _) in zip(self.nodes, self.places, strict=True):
            inside = {key: begin for key, begin, _ in members_of(self.text, start)}
            for place, entry in enumerate(items_of(self.text, inside["inputs"])):
                yield (node["name"], place), *self._entry(entry)
        for place, entry in enumerate(items_of(self.text, self.members["heads"][0])):
            yield ("", place), *self._entry(entry)

    def _entry(self, place: Place) -> tuple[list[int], Place]:
        return json.loads(self.text[place[0] : place[1]]), next(items_of(self.text, place[0]))


def copy_node(text_a: str, text_b: str, name: str) -> str:
    """Return B's text with a node of A put between what it reads in A and what reads it there.

    Raises:
        NotAppliedError: The node has arrays of its own, or the symbols are not the same around it.
    """
    a, b = _Symbol.of(text_a), _Symbol.of(text_b)
    node = a.nodes[a.number(name)]
    if any(other["name"] == name for other in b.nodes):
        raise NotAppliedError(f"the file has another node called {name!r}")
    read = [(a.nodes[number], output) for number, output, *_ in node["inputs"]]
    if len(read) != 1 or "subgraphs" in node:
        raise NotAppliedError(f"{name} reads {len(read)} nodes or arrays, and only what reads one is copied")
    (source, output) = read[0]
    number = b.number(source["name"])
    place = number + 1
    readers = {reader for reader, entry, _ in a.entries() if entry[0] == a.number(name)}
    moved = readers & {reader for reader, entry, _ in b.entries() if entry[:2] == [number, output]}
    if moved != readers:
        raise NotAppliedError(f"the file has nothing that reads {source['name']} where {name} is to stand")
    changes = []
    for reader, entry, (start, end) in b.entries():
        new = place if reader in moved else entry[0] + (entry[0] >= place)
        changes.append(Replacement(start, end, str(new)))
    for start, end in items_of(text_b, b.members["arg_nodes"][0]):
        old = int(text_b[start:end])
        changes.append(Replacement(start, end, str(old + (old >= place))))
    if "node_row_ptr" in b.members:
        changes += _moved_rows(b, place)
    inputs = json.dumps([[number, output, 0][: len(node["inputs"][0])]])
    changes.append(_inserted(b, number, _with_inputs(a, name, inputs)))
    return replaced(text_b, changes)


def _with_inputs(a: _Symbol, name: str, inputs: str) -> str:
    """Return the text of a node of A with other inputs."""
    start, end = a.places[a.number(name)]
    first, last = next((begin, stop) for key, begin, stop in members_of(a.text, start) if key == "inputs")
    return a.text[start:first] + inputs + a.text[last:end]


def _inserted(b: _Symbol, number: int, node: str) -> Replacement:
    """Return the change that writes a node behind another one, as far apart as the others are."""
    end = b.places[number][1]
    between = b.text[b.places[0][1] : b.places[1][0]] if len(b.places) > 1 else ", "
    return Replacement(end, end, between + node)


def _moved_rows(b: _Symbol, place: int) -> list[Replacement]:
    """Return the changes of how many outputs there are before each node, for one more with one output."""
    rows = list(items_of(b.text, b.members["node_row_ptr"][0]))
    values = [int(b.text[start:end]) for start, end in rows]
    if len(rows) != len(b.nodes) + 1:
        raise NotAppliedError("the numbers in node_row_ptr do not fit the nodes")
    changes = [
        Replacement(*row, str(value + 1)) for row, value in zip(rows[place:], values[place:], strict=True)
    ]
    between = b.text[rows[0][1] : rows[1][0]]
    start = rows[place][0]
    return [*changes[1:], Replacement(start, rows[place][1], f"{values[place]}{between}{values[place] + 1}")]


Editor = Callable[[str, int, str, Sequence["Edit"]], str]

EDITORS: dict[str, Editor] = {
    "prototxt": edit_prototxt,
    "symbol_json": edit_symbol,
    "cfg": edit_cfg,
    "python": edit_python,
}
"""Editors of texts, by their name in the dialect of a format."""

MODEL = "model"
"""The editor of formats that are no texts (``onnx_model``)."""

MAX_BYTES = 8 << 20
"""Larger files are not texts that somebody wrote."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A fix that was not applied.

    Attributes:
        finding: The finding.
        why: Why not, and what to do instead.
    """

    finding: Finding
    why: str

    @property
    def reason(self) -> str:
        """Why not, without the text of the fix: for a place where that stands already."""
        fix = self.finding.fix
        return self.why.removesuffix(f": {fix}") if fix else self.why


@dataclass(frozen=True, slots=True)
class Mended:
    """Texts with fixes applied.

    Attributes:
        before: The texts of the files that are changed, by the name of the file.
        after: The changed texts.
        applied: Findings whose fix is in them.
        refused: Findings whose fix is not.
        model: The changed model, of a file that is no text; ``before`` and ``after`` have it in a readable
            form.
    """

    before: dict[str, str]
    after: dict[str, str]
    applied: tuple[Finding, ...]
    refused: tuple[Refusal, ...]
    model: ModelEdits | None = None

    @property
    def contents(self) -> dict[str, bytes]:
        """The changed files as they are written, by name."""
        if self.model is not None:
            content = self.model.content
            return dict.fromkeys(self.after, content)
        return {file: text.encode() for file, text in self.after.items()}

    @property
    def data_files(self) -> Sequence[str]:
        """Files that must lie beside the changed ones, as these name them."""
        return self.model.data_files if self.model is not None else ()

    @property
    def diff(self) -> str:
        """The changes as a patch, which ``patch`` and ``git apply`` take; empty if there are none.

        That of a model is to be read only.
        """
        return "".join(unified_diff(file, self.before[file], text) for file, text in self.after.items())


class Mender:
    """Applies fixes of a comparison to the text of B's files, or to its model; no file is changed.

    Args:
        comparison: The comparison; B's files are read again, once.
    """

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison
        self._editor = dialect_of(comparison.b.format).editor
        self._models: dict[str, StoredModel] = {}
        self._mended: dict[tuple[int, ...], Mended] = {}

    def mend(self, findings: Iterable[Finding] | None = None) -> Mended:
        """Apply fixes.

        Args:
            findings: Findings of the comparison whose fixes are applied; those with an effect by default.
        """
        found = self._comparison.findings
        wanted = [finding for finding in found if not finding.latent] if findings is None else list(findings)
        key = tuple(map(id, wanted))
        if key not in self._mended:
            is_model = self._editor is not None and self._editor.name == MODEL and self._comparison.b.files
            self._mended[key] = (
                self._mend_model(wanted) if is_model else _mend_texts(self._comparison, wanted)
            )
        return self._mended[key]

    def _mend_model(self, wanted: Sequence[Finding]) -> Mended:
        """Apply fixes to an ONNX model."""
        from netweave.comparison.fixes.onnx_model import ModelEdits  # and onnx, which texts do without

        comparison = self._comparison
        file = comparison.b.files[0]
        groups = {id(group.finding): group for group in comparison.groups if group.finding is not None}
        try:
            model = ModelEdits(self._read(file), self._read)
        except NotAppliedError as error:
            return Mended({}, {}, (), tuple(Refusal(finding, str(error)) for finding in wanted))
        before, applied, refused = model.text, [], []
        for finding in wanted:
            try:
                model.apply(finding, groups.get(id(finding)), comparison)
                applied.append(finding)
            except NotAppliedError as error:
                refused.append(Refusal(finding, str(error)))
        if not applied:
            return Mended({}, {}, (), tuple(refused))
        return Mended({file: before}, {file: model.text}, tuple(applied), tuple(refused), model)

    def _read(self, file: str) -> StoredModel:
        from netweave.comparison.fixes.onnx_model import StoredModel

        if file not in self._models:
            self._models[file] = StoredModel(file)
        return self._models[file]


def mend(comparison: Comparison, findings: Iterable[Finding] | None = None) -> Mended:
    """Apply fixes once (``Mender.mend``)."""
    return Mender(comparison).mend(findings)


def _mend_texts(comparison: Comparison, wanted: Sequence[Finding]) -> Mended:
    texts = _Texts()
    refused: dict[int, str] = {}
    planned: dict[int, list[Change]] = {}
    for finding in wanted:
        try:
            planned[id(finding)] = _changes(comparison, finding, wanted, texts)
        except NotAppliedError as error:
            refused[id(finding)] = str(error)
    for finding in _at_odds([f for f in wanted if id(f) in planned], planned):
        refused[id(finding)] = "another fix gives its parameter to another layer; compare again after that"
        del planned[id(finding)]
    while failure := _change_all(comparison, [f for f in wanted if id(f) in planned], planned, texts):
        finding, why = failure
        refused[id(finding)] = why
        del planned[id(finding)]
    after = {file: text for file, text in texts.after.items() if text != texts.before[file]}
    return Mended(
        {file: texts.before[file] for file in after},
        after,
        tuple(finding for finding in wanted if id(finding) in planned),
        tuple(Refusal(finding, refused[id(finding)]) for finding in wanted if id(finding) in refused),
    )


@dataclass(frozen=True, slots=True)
class _Texts:
    """The texts of B's files, as they are and as they become."""

    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)

    def read(self, file: str) -> str:
        """Return the text of a file as it is."""
        if file not in self.before:
            self.before[file] = self.after[file] = _text(file)
        return self.before[file]


def _changes(
    comparison: Comparison, finding: Finding, wanted: Sequence[Finding], texts: _Texts
) -> list[Change]:
    """Return where a fix changes what, after trying each; nothing for one that copies a layer of A."""
    if not finding.edits and _is_copied(comparison, finding):
        return []
    file, editor = _place(comparison, finding)
    texts.read(file)
    changes = changes_for_all(comparison.b.layers, finding, wanted, texts.read)
    for change in changes:
        _changed(texts.read(change.file), change, finding, editor)
    return changes


def _at_odds(findings: Sequence[Finding], planned: Mapping[int, list[Change]]) -> list[Finding]:
    """Return findings whose fix changes a parameter that another fix gives to one layer more."""
    changes = [change for finding in findings for change in planned[id(finding)]]
    given = {
        (change.file, edit.value) for change in changes if change.passed is None for edit in change.edits
    }
    return [
        finding
        for finding in findings
        if any(
            change.passed is not None and (change.file, change.passed.parameter) in given
            for change in planned[id(finding)]
        )
    ]


def _change_all(
    comparison: Comparison, findings: Sequence[Finding], planned: Mapping[int, list[Change]], texts: _Texts
) -> tuple[Finding, str] | None:
    """Change the texts by all that is planned; return a finding whose fix does not go with the others.

    From the last line up, since a line that is added moves all that follow. Layers that are copied from A
    come last, and look for their place by name.
    """
    texts.after.update(texts.before)
    changes = [(change, finding) for finding in findings for change in planned[id(finding)]]
    done: set[tuple[str, int, tuple[Edit, ...]]] = set()
    for change, finding in sorted(changes, key=lambda row: -row[0].line):
        # a setting can be written again, and must be where it stands in several calls on the line
        key = (change.file, change.line, change.edits)
        if key in done and {edit.name for edit in change.edits} & {INPUT_ORDER, OUTPUT}:
            continue
        try:
            text = texts.after[change.file]
            texts.after[change.file] = _changed(text, change, finding, _place(comparison, finding)[1])
        except NotAppliedError as error:
            if key not in done:  # otherwise all calls of the line have been changed for another layer
                return finding, str(error)
        done.add(key)
    for finding in findings:
        if not planned[id(finding)]:
            try:
                _copy_layer(comparison, finding, texts)
            except NotAppliedError as error:
                return finding, str(error)
    return None


def _changed(text: str, change: Change, finding: Finding, editor: Editor) -> str:
    """Return a text with one change made."""
    if change.passed is not None:
        return edit_caller(text, change.line, change.passed, change.edits[0].value)
    try:
        return editor(text, change.line, finding.layer_b, change.edits)
    except SeveralCallsError:
        return edit_all_calls(text, change.line, change.kind, change.edits)


def _is_copied(comparison: Comparison, finding: Finding) -> bool:
    """Return whether a fix is a layer that stands in A's text in B's own format."""
    is_missing = finding.mismatch == "missing-layer" and bool(finding.layer_a) and not finding.layer_b
    formats = {comparison.a.format, comparison.b.format}
    if not is_missing or len(formats) > 1:
        return False
    are_python = all(_is_python(net.files[:1]) for net in (comparison.a, comparison.b))
    editor = dialect_of(comparison.b.format).editor
    return are_python or (editor is not None and editor.copies_layers)


def _is_python(files: Sequence[str]) -> bool:
    return any(file.endswith(".py") for file in files)


def _copy_layer(comparison: Comparison, finding: Finding, texts: _Texts) -> None:
    if not comparison.a.files or not comparison.b.files:
        raise NotAppliedError("the nets were not read from files")
    file = comparison.b.files[0]
    texts.read(file)
    file_a, _, line = finding.place_a.rpartition(":")
    text_a, text_b = _text(file_a), texts.after[file]
    editor = dialect_of(comparison.b.format).editor
    if not _is_python([file]) and editor is not None:
        copy = copy_node if editor.name == "symbol_json" else copy_layer
        texts.after[file] = copy(text_a, text_b, finding.layer_a)
    elif line.isdecimal():
        texts.after[file] = copy_line(text_a, text_b, int(line))
    else:
        raise NotAppliedError(f"where {finding.layer_a} stands in {Path(file_a or line).name} is not known")


def unified_diff(file: str, before: str, after: str) -> str:
    """Return a change of a text as a patch."""
    name = Path(file).name
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _line(finding: Finding) -> int:
    line = finding.place_b.rpartition(":")[2]
    return int(line) if line.isdecimal() else 0


def _place(comparison: Comparison, finding: Finding) -> tuple[str, Editor]:
    """Return the file that a fix changes, and what changes it."""
    if not finding.fix:
        raise NotAppliedError("no fix is known")
    if not finding.edits:
        raise NotAppliedError(f"the fix is more than a setting; do it by hand: {finding.fix}")
    net = comparison.b
    file, line = finding.place_b.rpartition(":")[0], _line(finding)
    if net.files and net.files[0].endswith(".onnx") and file and not file.endswith(".onnx"):
        raise NotAppliedError(
            f"{Path(net.files[0]).name} was converted from {Path(file).name}; change that, and convert again"
        )
    editor = dialect_of(net.format).editor
    if editor is None or not line or not file.endswith(editor.endings):
        name = Path(file or finding.place_b or net.name).name
        raise NotAppliedError(f"{name} is no text with a line for each layer; change it where it is made")
    return file, EDITORS[editor.name]


def _text(file: str) -> str:
    path = Path(file)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise NotAppliedError(f"{path.name} is larger than {MAX_BYTES >> 20} MiB")
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise NotAppliedError(f"{path.name} cannot be read again: {reason}") from error
