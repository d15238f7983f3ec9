"""Files of inputs that users bring for their comparisons: images, and arrays by name."""

from __future__ import annotations

from typing import IO

from django.db import transaction

from netweave.web.models import OwnInput, Workspace
from netweave.web.nets import arrived, uploading
from netweave.web.safety.names import safe_name
from netweave.web.work import storage


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
