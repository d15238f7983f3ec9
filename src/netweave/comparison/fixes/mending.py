"""From findings to changed texts of B's files, and why a fix cannot be applied."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from netweave.comparison import INPUT_ORDER, OUTPUT
from netweave.comparison.fixes.cfg import edit_cfg
from netweave.comparison.fixes.missing_layer import copy_layer, copy_line
from netweave.comparison.fixes.missing_node import copy_node
from netweave.comparison.fixes.prototxt import edit_prototxt
from netweave.comparison.fixes.python_callers import edit_caller
from netweave.comparison.fixes.python_source import edit_all_calls, edit_python
from netweave.comparison.fixes.shared_lines import changes_for_all
from netweave.comparison.fixes.symbol_json import edit_symbol
from netweave.comparison.fixes.text import NotAppliedError, SeveralCallsError
from netweave.formats.dialect import dialect_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from netweave.comparison import Comparison, Edit, Finding
    from netweave.comparison.fixes.shared_lines import Change

    Editor = Callable[[str, int, str, Sequence[Edit]], str]

EDITORS: dict[str, Editor] = {
    "prototxt": edit_prototxt,
    "symbol_json": edit_symbol,
    "cfg": edit_cfg,
    "python": edit_python,
}
"""Editors of texts, by their name in the dialect of a format."""

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
    """

    before: dict[str, str]
    after: dict[str, str]
    applied: tuple[Finding, ...]
    refused: tuple[Refusal, ...]

    @property
    def diff(self) -> str:
        """The changes as a patch, which ``patch`` and ``git apply`` take; empty if there are none."""
        return "".join(unified_diff(file, self.before[file], text) for file, text in self.after.items())


def mend(comparison: Comparison, findings: Iterable[Finding] | None = None) -> Mended:
    """Apply fixes to the text of B's files; no file is changed.

    Args:
        comparison: The comparison; B's files are read again.
        findings: Findings of it whose fixes are applied; those with an effect by default.
    """
    wanted = [f for f in comparison.findings if not f.latent] if findings is None else list(findings)
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
    if net.files and net.files[0].endswith(".onnx") and not file.endswith(".onnx"):
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
