"""Whose request it is: the workspace of an account, of a browser, or of a program's token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings

from netweave.web.models import Workspace, token_hash
from netweave.web.safety import client, count

if TYPE_CHECKING:
    from django.http import HttpRequest

KEY = "workspace"
"""Under this name a session without an account holds its workspace."""


def workspace_of(request: HttpRequest) -> Workspace | None:
    """Return the workspace of a browser; None if it has none yet."""
    if settings.OPTIONS.has_accounts:
        user = request.user
        return Workspace.objects.get_or_create(user=user)[0] if user.is_authenticated else None
    key = request.session.get(KEY)
    return Workspace.objects.filter(pk=key, user=None).first() if key else None


def make_workspace(request: HttpRequest) -> Workspace | None:
    """Return the workspace of a browser, made for one that comes for the first time; None: it must sign in.

    Raises:
        TooManyError: Too many browsers came from one address.
    """
    found = workspace_of(request)
    if found is not None or settings.OPTIONS.has_accounts:
        return found
    count("new browsers", client(request), limit=settings.OPTIONS.newcomers_per_minute)
    made = Workspace.objects.create()
    request.session[KEY] = str(made.pk)
    return made


def workspace_of_token(token: str) -> Workspace | None:
    """Return the workspace that a program's token opens; None if there is none."""
    found = Workspace.objects.filter(token_hash=token_hash(token)).select_related("user").first() if token else None
    if found is None or (found.user is not None and not found.user.is_active):
        return None
    if settings.OPTIONS.has_accounts and found.user is None:
        return None
    return found
