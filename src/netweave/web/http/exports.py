"""A net or a comparison as a file to send on: a page, JSON, Markdown, or a patch."""

from __future__ import annotations

import enum
import json
import re
from typing import TYPE_CHECKING, Any

from django.http import Http404, HttpResponse
from django.utils.http import content_disposition_header

from netweave import viewer
from netweave.web.nets import RefusedError
from netweave.web.work import storage

if TYPE_CHECKING:
    from collections.abc import Callable


class ExportKind(enum.StrEnum):
    """A kind of export, chosen by the ending of the file."""

    HTML = "html"
    JSON = "json"
    MARKDOWN = "md"
    PATCH = "patch"


def export_response(name: str, kind: ExportKind, *, document: str, result: str = "") -> HttpResponse:
    """Return a net or a comparison as a file.

    Args:
        name: What it is called.
        kind: What is wanted.
        document: Name in the storage of what the viewer shows.
        result: Name in the storage of a comparison's result, which is its JSON; a net's is the document.

    Raises:
        Http404: It is not there yet, or was deleted.
        RefusedError: There is no patch.
    """
    text = _stored(result if kind is ExportKind.JSON and result else document)
    content = _WRITERS[kind](name, text)
    # never shown by the browser as a page of the workbench, whatever it holds
    response = HttpResponse(content.encode(), content_type="application/octet-stream")
    stem = re.sub(r"[^\w.-]+", "-", name).strip("-.")[:80] or "net"
    header = content_disposition_header(True, f"{stem}.{kind}")
    response.headers["Content-Disposition"] = header or "attachment"
    return response


def _stored(name: str) -> str:
    if not name:
        raise Http404("not available yet; it is available once the state is 'done'")
    try:
        return storage.kept_text(name)
    except FileNotFoundError as error:
        raise Http404("it was deleted") from error


def _patch(name: str, text: str) -> str:
    patch: dict[str, Any] = json.loads(text).get("patch") or {}
    if not patch.get("diff"):
        raise RefusedError(patch.get("why") or "there is no fix of this comparison that a patch could hold")
    return str(patch["diff"])


_WRITERS: dict[ExportKind, Callable[[str, str], str]] = {
    ExportKind.HTML: viewer.stored_document_page,
    ExportKind.JSON: lambda name, text: text,
    ExportKind.MARKDOWN: lambda name, text: viewer.document_markdown(json.loads(text)),
    ExportKind.PATCH: _patch,
}
