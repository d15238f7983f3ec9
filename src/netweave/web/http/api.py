"""The parts of the HTTP API put together, who may call it, and what its errors look like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ninja import NinjaAPI
from ninja.errors import HttpError
from ninja.openapi.docs import Swagger
from ninja.security import APIKeyCookie, HttpBearer

from netweave import __version__
from netweave.web.http.comparisons import router as comparisons
from netweave.web.http.nets import input_router as inputs
from netweave.web.http.nets import router as nets
from netweave.web.http.nets import sample_router as samples
from netweave.web.models import Workspace
from netweave.web.nets import RefusedError
from netweave.web.owners import make_workspace, workspace_of_token
from netweave.web.safety import TooManyError

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


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


DESCRIPTION = """
Upload the files of two nets, have them compared, read the verdict. A program carries a token from the page
*API* (`Authorization: Bearer TOKEN`); nets and comparisons belong to it, and nobody else sees them.

1. `POST /api/nets` for each net, then `PUT /api/nets/{id}/files/{name}` for each of its files.
2. `POST /api/comparisons` with the two ids.
3. `GET /api/comparisons/{id}` until `state` is `done`, `failed` or `cancelled`.
4. `GET /api/comparisons/{id}/result` is what `netweave compare --json` writes.
"""

api = NinjaAPI(
    title="Netweave",
    version=__version__,
    description=DESCRIPTION,
    auth=AUTH,
    docs=Swagger(settings={"persistAuthorization": False}),
    urls_namespace="api",
)
api.add_router("/nets", nets, tags=["nets"])
api.add_router("/comparisons", comparisons, tags=["comparisons"])
api.add_router("/inputs", inputs, tags=["comparisons"])
api.add_router("/samples", samples, tags=["samples"])


@api.exception_handler(RefusedError)
def refused(request: HttpRequest, error: RefusedError) -> HttpResponse:
    """Answer what cannot be done as asked."""
    return api.create_response(request, {"detail": str(error)}, status=422)


@api.exception_handler(TooManyError)
def too_many(request: HttpRequest, error: TooManyError) -> HttpResponse:
    """Answer what is done too often."""
    response = api.create_response(request, {"detail": str(error)}, status=429)
    response.headers["Retry-After"] = "60"
    return response
