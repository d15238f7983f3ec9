"""Context of all pages: the visitor, and what the workbench offers."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied

from netweave.web.owners import make_workspace, welcome, workspace_of
from netweave.web.pages.errors import too_many
from netweave.web.safety import TooManyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

    from netweave.web.models import Workspace


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
