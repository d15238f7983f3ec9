"""Parts that pages share, and the pages of errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import JsonResponse
from django.shortcuts import render

from netweave.web.models import Workspace
from netweave.web.owners import make_workspace, welcome, workspace_of
from netweave.web.safety import TooManyError

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse
    from django.http.response import HttpResponseBase


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


def workbench(request: HttpRequest) -> dict[str, Any]:
    """Return what every template may use."""
    options = settings.OPTIONS
    # on one's own machine a page may ask for the model class before code is allowed
    return {"options": options, "asks_for_code": options.asks_for_code}


def owned(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Give a page the visitor's workspace, None for one who comes for the first time."""

    @wraps(view)
    def inner(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        owner = workspace_of(request)
        if owner is None and settings.OPTIONS.has_accounts:
            return redirect_to_login(request.get_full_path())
        try:
            return welcome(request, view(request, owner, *args, **kwargs))
        except TooManyError as error:
            return too_many(request, error)

    return inner


def owner_made(request: HttpRequest, owner: Workspace | None) -> Workspace:
    """Return the visitor's workspace, made if there is none.

    Raises:
        PermissionDenied: The browser does not keep cookies.
    """
    workspace = owner or make_workspace(request)
    if workspace is None:
        raise PermissionDenied
    return workspace
