"""The headers that tell a browser what a page may do: nothing that does not come from this server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",  # data: Bootstrap's icons; blob: pictures that the viewer exports
        "font-src 'self'",
        "connect-src 'self'",
        "worker-src blob:",  # the viewer's layout runs in a worker that it carries in its own script
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)

API_DOCS_POLICY = POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
"""Swagger UI sets styles in its markup; its page shows nothing that a user wrote."""


def headers(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Give every response a content security policy; what is private is never kept by caches on the way."""

    def respond(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        policy = API_DOCS_POLICY if request.path == "/api/docs" else POLICY
        response.headers.setdefault("Content-Security-Policy", policy)
        response.headers.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
        if not request.path.startswith("/static/"):
            response.headers.setdefault("Cache-Control", "private, no-cache")
        return response

    return respond
