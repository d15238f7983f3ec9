"""What can be done with comparisons; the pages and the HTTP API both come here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction

from netweave.web.models import Comparison, State
from netweave.web.nets import RefusedError
from netweave.web.safety import count
from netweave.web.work import leases, storage
from netweave.web.work.tasks import compare_nets

if TYPE_CHECKING:
    from netweave.web.models import Net


def start(a: Net, b: Net, *, name: str = "", chosen: dict[str, Any] | None = None) -> Comparison:
    """Have two nets compared.

    Args:
        a: The first net.
        b: The second net, of the same workspace.
        name: What to call the comparison.
        chosen: ``first``, ``last`` and ``tolerance`` of the comparison, as far as chosen.

    Raises:
        RefusedError: A net has no files, or cannot be read.
        TooManyError: Too many comparisons were started in a minute.
    """
    for letter, net in (("A", a), ("B", b)):
        if net.state == State.EMPTY:
            raise RefusedError(f"net {letter} has no files yet; upload them first")
        if net.state == State.FAILED:
            raise RefusedError(f"net {letter} cannot be read: {net.error}")
    count("comparisons", str(a.workspace_id), limit=settings.OPTIONS.comparisons_per_minute)
    with transaction.atomic():
        made = Comparison.objects.create(
            workspace=a.workspace,
            name=(name.strip() or f"{a.name} against {b.name}")[:200],
            net_a=a,
            net_b=b,
            name_a=a.name,
            name_b=b.name,
            settings={key: value for key, value in (chosen or {}).items() if value is not None},
        )
        leases.queue(made, compare_nets)
    return made


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
    names = [comparison.result, comparison.document]
    comparison.delete()
    storage.drop(names)
