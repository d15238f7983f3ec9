"""Stored documents as responses: they lie compressed, and go out as they lie where the caller takes that."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

from django.http import Http404, HttpResponse
from django.utils.cache import patch_vary_headers

from netweave.web.work import storage

if TYPE_CHECKING:
    from django.http import HttpRequest


def document_response(request: HttpRequest, name: str) -> HttpResponse:
    """Return a stored document.

    Raises:
        Http404: There is none yet.
    """
    if not name:
        raise Http404("not available yet; it is available once the state is 'done'")
    try:
        content = storage.kept_bytes(name)
    except FileNotFoundError as error:
        raise Http404("it was deleted") from error
    packed = "gzip" in request.headers.get("Accept-Encoding", "")
    response = HttpResponse(content if packed else gzip.decompress(content), content_type="application/json")
    if packed:
        response.headers["Content-Encoding"] = "gzip"
    patch_vary_headers(response, ["Accept-Encoding"])
    return response
