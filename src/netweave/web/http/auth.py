"""Who may call: a browser by its session, with CSRF protection, or a program by its token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ninja.errors import HttpError
from ninja.security import APIKeyCookie, HttpBearer

from netweave.web.models import Workspace
from netweave.web.owners import make_workspace, workspace_of_token

if TYPE_CHECKING:
    from django.http import HttpRequest


class Token(HttpBearer):
    """``Authorization: Bearer TOKEN``, with a token from the page "API"."""

    def authenticate(self, request: HttpRequest, token: str) -> Workspace | None:
        """Return the workspace that a token opens."""
        workspace = workspace_of_token(token)
        if workspace is None:
            raise HttpError(401, "unknown token; create one on the page 'API' of the workbench")
        return workspace


class Browser(APIKeyCookie):
    """The cookies of a browser; requests that change something carry the CSRF token."""

    param_name = "sessionid"

    def authenticate(self, request: HttpRequest, key: str | None) -> Workspace | None:
        """Return the workspace of a browser; one that comes for the first time gets one."""
        return make_workspace(request)


AUTH = [Token(), Browser()]
