"""Comparisons of the workbench, and files of inputs that users bring for them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import transaction

from netweave.web import chosen_options, nets
from netweave.web.models import UNFINISHED, Comparison, Net, OwnInput, State, Workspace
from netweave.web.nets import RefusedError, arrived, uploading
from netweave.web.safety import count, safe_name
from netweave.web.work import leases, storage
from netweave.web.work.tasks import compare_nets

if TYPE_CHECKING:
    from django.db.models import QuerySet


def start(
    a: Net,
    b: Net,
    *,
    name: str = "",
    chosen: dict[str, Any] | None = None,
    own_input: OwnInput | None = None,
) -> Comparison:
    """Have two nets compared.

    Args:
        a: The first net.
        b: The second net, of the same workspace.
        name: What to call the comparison.
        chosen: Settings, as far as chosen (``web.chosen_options``).
        own_input: A file of inputs of A to run on.

    Raises:
        RefusedError: A net has no files, or cannot be read.
        TooManyError: Too many comparisons were started in a minute.
    """
    for letter, net in (("A", a), ("B", b)):
        if net.state == State.EMPTY:
            raise RefusedError(f"net {letter} has no files yet; upload them first")
        if net.state == State.FAILED:
            raise RefusedError(f"net {letter} cannot be read: {net.error}")
    unfinished = Comparison.objects.filter(workspace=a.workspace, state__in=UNFINISHED).count()
    if unfinished >= settings.OPTIONS.max_waiting:
        raise RefusedError(
            f"{unfinished} of your comparisons wait or run; wait until some are done, or cancel"
        )
    with transaction.atomic():
        count("comparisons", str(a.workspace_id), limit=settings.OPTIONS.comparisons_per_minute)
        made = Comparison.objects.create(
            workspace=a.workspace,
            name=(name.strip() or f"{a.name} against {b.name}")[:200],
            net_a=a,
            net_b=b,
            name_a=a.name,
            name_b=b.name,
            settings=chosen_options.kept(chosen or {}),
            own_input=own_input,
        )
        leases.queue(made, compare_nets)
    return made


def mended_files(comparison: Comparison, finding: int | None) -> dict[str, bytes]:
    """Return the second net's files with fixes applied, by file name.

    Args:
        comparison: A comparison that is done.
        finding: Number of the finding whose fix is applied; None for all.

    Raises:
        RefusedError: There is no fix that can be applied, or the file that it changes was deleted.
    """
    known = storage.kept_json(comparison.fixes) if comparison.fixes else {}
    texts: dict[str, Any] = known.get("all" if finding is None else str(finding), {})
    if not texts:
        raise RefusedError("no fix of this comparison can be applied to the file; the page says why")
    return {name: _mended_content(comparison, name, kept) for name, kept in texts.items()}


def _mended_content(comparison: Comparison, name: str, kept: str | dict[str, Any]) -> bytes:
    """Return a mended file: a text, or a model of which what is new is kept (``child.changed_bytes``)."""
    if isinstance(kept, str):
        return kept.encode()
    net = comparison.net_b
    file = None if net is None else net.files.filter(name=name).first()
    if file is None:
        raise RefusedError(f"{name} was deleted, or lies in an archive; upload it by itself")
    with default_storage.open(file.stored) as stream:
        old: bytes = stream.read()
    return old[: kept["start"]] + base64.b64decode(kept["new"]) + old[len(old) - kept["end"] :]


def apply_fix(comparison: Comparison, finding: int | None) -> Comparison:
    """Make a net of the second one with fixes applied, and compare the first with it.

    Args:
        comparison: A comparison that is done; its nets stay as they are.
        finding: As for ``mended_files``.

    Raises:
        RefusedError: A net was deleted, there is no fix, or there is no room for the mended net.
        TooManyError: Too many files or comparisons came in a minute.
    """
    a, b = comparison.net_a, comparison.net_b
    if a is None or b is None:
        raise RefusedError("a net of this comparison was deleted; upload it again")
    contents = mended_files(comparison, finding)
    files = list(b.files.all())
    if not contents.keys() <= {file.name for file in files}:
        raise RefusedError("the file lies in an archive; upload the files by themselves, or take the patch")
    mended = nets.make_net(
        b.workspace, name=f"{b.name}, mended"[:200], input_shapes=b.input_shapes, entry=b.entry
    )
    for file in files:
        content = contents.get(file.name)
        with ContentFile(content) if content is not None else default_storage.open(file.stored) as stream:
            nets.add_file(mended, file.name, stream, num_bytes=stream.size)
    mended.refresh_from_db()
    return start(a, mended, chosen=comparison.settings, own_input=comparison.own_input)


def swap(comparison: Comparison) -> Comparison:
    """Compare the two nets of a comparison again, with the other one as the original.

    Raises:
        RefusedError: A net was deleted or cannot be read, or too many comparisons wait.
        TooManyError: Too many comparisons were started in a minute.
    """
    a, b = comparison.net_a, comparison.net_b
    if a is None or b is None:
        raise RefusedError("a net of this comparison was deleted; upload it again")
    return start(b, a, chosen=chosen_options.swapped(comparison.settings), own_input=comparison.own_input)


def rename(comparison: Comparison, name: str) -> None:
    """Give a comparison another name; an empty one leaves it."""
    comparison.name = name.strip()[:200] or comparison.name
    comparison.save(update_fields=["name"])


def unshare(comparison: Comparison) -> None:
    """End the shared link of a comparison; a later one is another."""
    comparison.share = ""
    comparison.save(update_fields=["share"])


def delete(comparison: Comparison) -> None:
    """Delete a comparison with its result; a worker that is at it learns it."""
    names = [comparison.result, comparison.document, comparison.fixes]
    own = comparison.own_input
    comparison.delete()
    storage.drop(names)
    delete_if_unused(own)


MAX_CHANGES = 500
"""Layers that are listed; the page says how many there are beyond."""

FACTOR = 2.0
"""Errors of a layer that differ by less than this factor are of the same size."""

LEAST_ERROR = 1e-6
"""Errors below are rounding."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """A value that two comparisons do not share.

    Attributes:
        name: What it is of.
        old: In the first comparison; empty if it has none.
        new: In the second.
    """

    name: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class RunDifference:
    """Differences between two comparisons of the same pair.

    Attributes:
        settings: Settings that differ.
        results: Verdict, largest error and what the nets were run on, where they differ.
        gone: Causes that only the first comparison found.
        new: Causes that only the second found.
        layers: Groups of layers whose status or error changed.
        num_layers: How many there are.
    """

    settings: tuple[Change, ...]
    results: tuple[Change, ...]
    gone: tuple[str, ...]
    new: tuple[str, ...]
    layers: tuple[Change, ...]
    num_layers: int

    @property
    def is_empty(self) -> bool:
        """True if both found the same."""
        return not (self.results or self.gone or self.new or self.layers)


def others(comparison: Comparison) -> QuerySet[Comparison]:
    """Return the other comparisons of the same pair that are done, newest first."""
    if comparison.net_a_id is None or comparison.net_b_id is None:
        return Comparison.objects.none()
    same = Comparison.objects.filter(
        workspace=comparison.workspace_id,
        net_a=comparison.net_a_id,
        net_b=comparison.net_b_id,
        state=State.DONE,
    )
    return same.exclude(pk=comparison.pk).select_related("own_input")


def run_difference(old: Comparison, new: Comparison, old_result: Json, new_result: Json) -> RunDifference:
    """Return what differs between two comparisons.

    Args:
        old: The first comparison.
        new: The second.
        old_result: The stored result of the first, as ``netweave compare --json`` writes it.
        new_result: That of the second.
    """
    causes = [_causes(result) for result in (old_result, new_result)]
    layers = _changes(_layers(old_result), _layers(new_result))
    return RunDifference(
        settings=_changes(dict(chosen_options.rows(old)), dict(chosen_options.rows(new))),
        results=_changes(_result(old_result), _result(new_result)),
        gone=tuple(cause for cause in causes[0] if cause not in causes[1]),
        new=tuple(cause for cause in causes[1] if cause not in causes[0]),
        layers=layers[:MAX_CHANGES],
        num_layers=len(layers),
    )


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Change, ...]:
    return tuple(
        Change(name, _shown(old.get(name)), _shown(new.get(name)))
        for name in dict.fromkeys((*old, *new))
        if not _same(old.get(name), new.get(name))
    )


def _same(old: Any, new: Any) -> bool:
    if isinstance(old, _Judged) and isinstance(new, _Judged):
        return old.status == new.status and _same_size(old.error, new.error)
    return bool(old == new)


def _same_size(old: float | None, new: float | None) -> bool:
    if old is None or new is None:
        return old is new
    if max(old, new) < LEAST_ERROR:
        return True
    return min(old, new) > 0 and max(old, new) / min(old, new) < FACTOR


@dataclass(frozen=True, slots=True)
class _Judged:
    status: str
    error: float | None


def _shown(value: Any) -> str:
    if isinstance(value, _Judged):
        return value.status if value.error is None else f"{value.status}, error {value.error:.1g}"
    return "" if value is None else chosen_options.text(value)


def _result(result: Json) -> dict[str, Any]:
    return {
        "verdict": result["verdict"],
        "largest error of an output": _number(result.get("error")),
        "inputs": "; ".join(result.get("probes", ())),
        "notes": "; ".join(result.get("notes", ())),
    }


def _causes(result: Json) -> list[str]:
    findings = [group["finding"] for group in result["groups"] if group.get("finding")]
    return list(dict.fromkeys(f"{_names(finding)}: {finding['cause']}" for finding in findings))


def _names(finding: Json) -> str:
    return " / ".join(dict.fromkeys(filter(None, (finding.get("layer_a"), finding.get("layer_b")))))


def _layers(result: Json) -> dict[str, _Judged]:
    judged: dict[str, _Judged] = {}
    for group in result["groups"]:
        sides = [", ".join(group[key]) for key in ("layers_a", "layers_b")]
        name = " / ".join(dict.fromkeys(filter(None, sides)))
        nodes = [", ".join(group[key]) for key in ("nodes_a", "nodes_b")]
        name = name or " / ".join(dict.fromkeys(filter(None, nodes)))
        error = _number(group.get("error"))
        before = judged.get(name)
        if before is None or (error or 0.0) > (before.error or 0.0):
            judged[name] = _Judged(group["status"], error)
    return judged


def _number(value: Any) -> float | None:
    return None if value is None else float(value)  # "inf" and "nan" are strings in JSON


def add_input(workspace: Workspace, name: str, stream: IO[bytes], *, num_bytes: int | None) -> OwnInput:
    """Store a file of inputs; it takes of the quota until no comparison uses it.

    Args:
        workspace: Whose it is.
        name: What the file is called where it comes from.
        stream: Its content.
        num_bytes: Its size as announced; None if it was not.

    Raises:
        RefusedError: It is too large or empty.
        TooManyError: Too many files came in a minute.
    """
    safe = safe_name(name)
    with (
        uploading(workspace.pk, num_bytes) as count_it,
        storage.arriving(workspace, safe, num_bytes) as arrival,
    ):
        size = arrived(arrival, stream, num_bytes)
        with transaction.atomic():
            count_it()
            arrival.keep(size)
            return OwnInput.objects.create(
                workspace=workspace, name=safe, stored=arrival.stored, num_bytes=size
            )


def delete_if_unused(own: OwnInput | None) -> None:
    """Delete a file of inputs that no comparison uses any more."""
    if own is not None and not own.comparisons.exists():
        storage.drop([own.stored])
        own.delete()
