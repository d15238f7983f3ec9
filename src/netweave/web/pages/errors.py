"""The pages of what goes wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import JsonResponse
from django.shortcuts import render

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from netweave.web.safety import TooManyError


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a request that no browser sends."""
    return _show(request, 400, "This request makes no sense", "Go back and try again.")


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a request for what is not allowed."""
    return _show(request, 403, "This is not allowed", "It may belong to somebody else.")


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answer a form that was not sent from a page of the workbench."""
    text = "It was not sent from a page of this workbench, or cookies are off. Go back, reload, try again."
    return _show(request, 403, "This form was refused", text)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a request for what is not there, or not the visitor's."""
    text = "It was deleted, its shared link has ended, or it belongs to another browser or account."
    return _show(request, 404, "There is nothing here", text)


def too_many(request: HttpRequest, error: TooManyError) -> HttpResponse:
    """Answer what is done too often."""
    response = _show(request, 429, "Too often", f"That was {error}.")
    response.headers["Retry-After"] = "60"
    return response


def broken(request: HttpRequest) -> HttpResponse:
    """Answer a request that hit a bug of ours."""
    text = "Something went wrong in the workbench itself; its log says what. Your files are safe."
    return _show(request, 500, "This is our mistake", text)


def _show(request: HttpRequest, status: int, title: str, text: str) -> HttpResponse:
    if request.path.startswith("/api/"):  # a program cannot read a page
        return JsonResponse({"detail": f"{title}: {text}"}, status=status)
    return render(request, "web/error.html", {"title": title, "text": text, "status": status}, status=status)
