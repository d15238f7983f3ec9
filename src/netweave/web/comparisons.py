"""Operations on comparisons, for the pages and the HTTP API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import transaction

from netweave.web import choices, nets, own_inputs
from netweave.web.models import UNFINISHED, Comparison, State
from netweave.web.nets import RefusedError
from netweave.web.safety import count
from netweave.web.work import leases, storage
from netweave.web.work.tasks import compare_nets

if TYPE_CHECKING:
    from netweave.web.models import Net, OwnInput


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
        chosen: Settings, as far as chosen (``web.choices``).
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
            settings=choices.kept(chosen or {}),
            own_input=own_input,
        )
        leases.queue(made, compare_nets)
    return made


def mended_texts(comparison: Comparison, finding: int | None) -> dict[str, str]:
    """Return the second net's texts with fixes applied, by file name.

    Args:
        comparison: A comparison that is done.
        finding: The number of the finding that is fixed; None for all.

    Raises:
        RefusedError: There is no fix that can be applied.
    """
    known = storage.kept_json(comparison.fixes) if comparison.fixes else {}
    texts: dict[str, str] = known.get("all" if finding is None else str(finding), {})
    if not texts:
        raise RefusedError("no fix of this comparison can be applied to the text; the page says why")
    return texts


def apply_fix(comparison: Comparison, finding: int | None) -> Comparison:
    """Make a net of the second one with fixes applied, and compare the first with it.

    Args:
        comparison: A comparison that is done; its nets stay as they are.
        finding: As for ``mended_texts``.

    Raises:
        RefusedError: A net was deleted, there is no fix, or there is no room for the mended net.
        TooManyError: Too many files or comparisons came in a minute.
    """
    a, b = comparison.net_a, comparison.net_b
    if a is None or b is None:
        raise RefusedError("a net of this comparison was deleted; upload it again")
    texts = mended_texts(comparison, finding)
    files = list(b.files.all())
    if not texts.keys() <= {file.name for file in files}:
        raise RefusedError("the file lies in an archive; upload the files by themselves, or take the patch")
    mended = nets.make_net(
        b.workspace, name=f"{b.name}, mended"[:200], input_shapes=b.input_shapes, entry=b.entry
    )
    for file in files:
        text = texts.get(file.name)
        with ContentFile(text.encode()) if text is not None else default_storage.open(file.stored) as stream:
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
    return start(b, a, chosen=choices.swapped(comparison.settings), own_input=comparison.own_input)


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
    own_inputs.delete_if_unused(own)
