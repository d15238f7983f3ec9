"""The page of a net."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.http import Http404
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from netweave.web.models import Net
from netweave.web.pages.shared import owned
from netweave.web.work import storage

if TYPE_CHECKING:
    from uuid import UUID

    from django.http import HttpRequest, HttpResponse

    from netweave.web.models import Workspace


def _own(owner: Workspace | None, key: UUID) -> Net:
    if owner is None:
        raise Http404
    return get_object_or_404(Net, pk=key, workspace=owner)


@require_safe
@owned
def show(request: HttpRequest, owner: Workspace | None, key: UUID) -> HttpResponse:
    """Show a net: what was read, its files, and its picture."""
    found = _own(owner, key)
    source = reverse("api:net_document", args=[found.pk])
    return render(request, "web/net.html", {"net": found, "files": found.files.all(), "source": source})


@require_POST
@owned
def delete(request: HttpRequest, owner: Workspace | None, key: UUID) -> HttpResponse:
    """Delete a net with its files."""
    found = _own(owner, key)
    storage.delete_net(found)
    messages.success(request, f"Deleted the net “{found.name}” and its files.")
    return redirect("new")
