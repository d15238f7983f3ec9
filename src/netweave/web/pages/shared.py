"""What all pages have: who the visitor is, and what the workbench offers."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse

from netweave.web.owners import make_workspace, workspace_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.web.models import Workspace

View = Callable[..., HttpResponse] if TYPE_CHECKING else Any


def workbench(request: HttpRequest) -> dict[str, Any]:
    """Return what every template may use."""
    return {"options": settings.OPTIONS}


def owned(view: View) -> View:
    """Give a page the visitor's workspace, None for one who comes for the first time."""

    @wraps(view)
    def inner(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        owner = workspace_of(request)
        if owner is None and settings.OPTIONS.has_accounts:
            return redirect_to_login(request.get_full_path())
        return view(request, owner, *args, **kwargs)

    return inner


def owner_made(request: HttpRequest, owner: Workspace | None) -> Workspace:
    """Return the visitor's workspace, made if there is none; the visitor is signed in where that is needed."""
    found = owner or make_workspace(request)
    assert found is not None, "``owned`` sends visitors without an account to sign in"
    return found
