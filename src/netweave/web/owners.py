"""Whose request it is: the workspace of this machine, an account, a browser, or a program's token."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import transaction

from netweave.web.models import Comparison, Net, Upload, Workspace, token_hash
from netweave.web.prepared_statements import select_one
from netweave.web.safety import client, count

if TYPE_CHECKING:
    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

COOKIE = "netweave-workspace"
"""A browser without an account carries the name of its workspace, signed, in this cookie."""

LOCAL = uuid.UUID(int=1)
"""The workspace of a workbench that is one person's: one for ``localhost`` and ``127.0.0.1``, and for every
browser of theirs (decision 0148)."""


def workspace_of(request: HttpRequest) -> Workspace | None:
    """Return the workspace of a browser; None if it has none yet."""
    if settings.OPTIONS.has_accounts:
        user = request.user
        if not user.is_authenticated:
            return None
        origin = client(request) if settings.OPTIONS.accounts == "open" else ""
        return Workspace.objects.get_or_create(user=user, defaults={"origin": origin})[0]
    key = LOCAL if settings.OPTIONS.is_personal else _key(request)
    return select_one(Workspace, pk=key, user=None) if key else None


def make_workspace(request: HttpRequest) -> Workspace | None:
    """Return the workspace of a browser, made when it first brings something; None: it has to sign in.

    Raises:
        TooManyError: Too many browsers came from one address.
    """
    workspace = workspace_of(request)
    if workspace is None and settings.OPTIONS.is_personal:
        return _local()
    if workspace is not None or settings.OPTIONS.has_accounts:
        return workspace
    key = _key(request)
    if key is None:
        return None
    with transaction.atomic():
        count("new browsers", client(request), limit=settings.OPTIONS.newcomers_per_minute)
        # a browser sends the files of both nets at once: whichever comes first makes it
        return Workspace.objects.get_or_create(pk=key, defaults={"user": None, "origin": client(request)})[0]


def welcome(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """Give a browser that comes for the first time the name of the workspace that it may make."""
    options = settings.OPTIONS
    if not options.has_accounts and not options.is_personal and _key(request) is None:
        response.set_signed_cookie(
            COOKIE,
            str(uuid.uuid4()),
            max_age=settings.SESSION_COOKIE_AGE,
            httponly=True,
            samesite="Lax",
            secure=settings.SESSION_COOKIE_SECURE,
        )
    return response


def may_read_code(workspace: Workspace) -> bool:
    """Return whether files that are code may be read, in the guarded process.

    The operator of the workbench allows it, or users do on their own machine, where the page asks for it
    (decision 0181); their choice no longer counts once others use the workbench.
    """
    options = settings.OPTIONS
    return bool(options.code or (options.is_personal and workspace.reads_code))


def allow_code(workspace: Workspace) -> bool:
    """Allow files that are code on one's own machine; False where that is the operator's choice."""
    if not settings.OPTIONS.is_personal:
        return False
    workspace.reads_code = True
    workspace.save(update_fields=["reads_code"])
    return True


@transaction.atomic
def _local() -> Workspace:
    """Make the workspace of this machine; it takes over what browsers have brought before there was one."""
    local, is_new = Workspace.objects.get_or_create(pk=LOCAL, defaults={"user": None})
    if not is_new:
        return local
    others = Workspace.objects.filter(user=None).exclude(pk=LOCAL)
    for model in (Net, Comparison, Upload):
        model._default_manager.filter(workspace__in=others).update(workspace=local)
    newest = others.exclude(token_hash="").order_by("-created").first()
    if newest is not None:
        local.token_hash = newest.token_hash
        local.save(update_fields=["token_hash"])
    others.delete()
    return local


def _key(request: HttpRequest) -> str | None:
    key: str | None = request.get_signed_cookie(COOKIE, default=None)
    return key


def workspace_of_token(token: str) -> Workspace | None:
    """Return the workspace that a program's token opens; None if there is none."""
    workspace = (
        Workspace.objects.filter(token_hash=token_hash(token)).select_related("user").first()
        if token
        else None
    )
    if workspace is None or (workspace.user is not None and not workspace.user.is_active):
        return None
    if settings.OPTIONS.has_accounts and workspace.user is None:
        return None
    return workspace
