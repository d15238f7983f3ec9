"""Pages that explain the workbench and its API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.shortcuts import render
from django.views.decorators.http import require_http_methods, require_safe

from netweave import api
from netweave.web.models import Workspace
from netweave.web.pages.shared import owned, owner_made

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


@require_safe
def show(request: HttpRequest) -> HttpResponse:
    """Show the help, with the formats that can be read."""
    return render(request, "web/help.html", {"formats": api.formats(), "verdicts": list(api.Verdict)})


@require_http_methods(["GET", "HEAD", "POST"])
@owned
def show_programs(request: HttpRequest, owner: Workspace | None) -> HttpResponse:
    """Show how the API is called; a POST makes a new token, which is shown this once.

    The form says which token it replaces: one that a browser sends again when the page is reloaded names a
    token that is gone, and replaces nothing.
    """
    token, is_repeated = "", False
    if request.method == "POST":
        owner = owner_made(request, owner)
        is_repeated = request.POST.get("replaces", "") != owner.token_id
        token = "" if is_repeated else owner.make_token()
    context = {
        "token": token,
        "is_repeated": is_repeated,
        "has_token": bool(owner and owner.token_hash),
        "replaces": owner.token_id if owner else "",
        "base": request.build_absolute_uri("/api"),
    }
    return render(request, "web/programs.html", context)
