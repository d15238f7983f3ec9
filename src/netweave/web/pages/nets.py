"""The start page with its places for files, the list of a visitor's nets, and the page of one net."""

from __future__ import annotations

import tempfile
import zipfile
from typing import TYPE_CHECKING
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.core.files.storage import default_storage
from django.core.paginator import Paginator
from django.db.models import Count, Sum
from django.http import FileResponse, Http404
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_POST, require_safe

from netweave.web import nets
from netweave.web.chosen_options import COLORS
from netweave.web.models import Comparison, Net, State, Workspace
from netweave.web.pages.shared import owned
from netweave.web.samples import samples
from netweave.web.work import storage

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

LATEST = 3


@require_safe
@ensure_csrf_cookie
@owned
def show_start(request: HttpRequest, owner: Workspace | None) -> HttpResponse:
    """Show the two places for files, the samples, and the latest comparisons."""
    latest = Comparison.objects.filter(workspace=owner)[:LATEST] if owner else []
    nets = Net.objects.filter(workspace=owner).exclude(state=State.EMPTY)[:LATEST] if owner else []
    context = {"samples": samples().values(), "latest": latest, "nets": nets, "colors": COLORS}
    return render(request, "web/new.html", context)


PAGE_SIZE = 25

ARCHIVE_IN_MEMORY = 16 << 20
"""An archive that is larger lies on the disk while it goes out."""


def _own(owner: Workspace | None, key: UUID) -> Net:
    if owner is None:
        raise Http404
    return get_object_or_404(Net, pk=key, workspace=owner)


@require_safe
@owned
def index(request: HttpRequest, owner: Workspace | None) -> HttpResponse:
    """Show the visitor's nets, also those that were never compared, and what they take of the quota."""
    words = request.GET.get("q", "").strip()[:100]
    # without files it is no net yet: an upload was refused, or has just begun (``work.leftovers``)
    matching = Net.objects.filter(workspace=owner).exclude(state=State.EMPTY) if owner else Net.objects.none()
    for word in words.split():
        matching = matching.filter(name__icontains=word)
    rows = matching.annotate(num_bytes=Sum("files__num_bytes"), num_files=Count("files")).order_by("-created")
    total = settings.OPTIONS.max_total_mb << 20
    taken = storage.taken_bytes(owner.pk) if owner else 0
    context = {
        "page": Paginator(rows, PAGE_SIZE).get_page(request.GET.get("page")),
        "words": words,
        "taken": taken,
        "total": total,
        "percent": min(100, 100 * taken // total),
    }
    return render(request, "web/nets.html", context)


@require_safe
@owned
def show(request: HttpRequest, owner: Workspace | None, key: UUID) -> HttpResponse:
    """Show a net: what was read, its files, and its picture."""
    net = _own(owner, key)
    source = reverse("api:net_document", args=[net.pk])
    return render(request, "web/net.html", {"net": net, "files": net.files.all(), "source": source})


@require_POST
@owned
def rename(request: HttpRequest, owner: Workspace | None, key: UUID) -> HttpResponse:
    """Give a net another name."""
    net = _own(owner, key)
    nets.change_net(net, name=request.POST.get("name", ""))
    messages.success(request, f"Renamed to “{net.name}”.")
    return redirect("nets") if request.POST.get("back") == "list" else redirect("net", net.pk)


@require_safe
@owned
def download(request: HttpRequest, owner: Workspace | None, key: UUID) -> FileResponse:
    """Return the files of a net as they came: one as it is, several as a zip archive."""
    net = _own(owner, key)
    files = list(net.files.all())
    if not files:
        raise Http404
    if len(files) == 1:
        content = default_storage.open(files[0].stored, "rb")
        return FileResponse(
            content, as_attachment=True, filename=files[0].name, content_type="application/octet-stream"
        )
    archive = tempfile.SpooledTemporaryFile(ARCHIVE_IN_MEMORY)  # noqa: SIM115 (the response closes it)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as target:
        for file in files:
            with default_storage.open(file.stored, "rb") as source, target.open(file.name, "w") as member:
                storage.copy(source, member)
    archive.seek(0)
    return FileResponse(
        archive, as_attachment=True, filename=f"{net.name}.zip", content_type="application/zip"
    )


@require_POST
@owned
def allow_code(request: HttpRequest, owner: Workspace | None, key: UUID) -> HttpResponse:
    """Allow files that contain code, and read the net again."""
    net = _own(owner, key)
    try:
        nets.allow_code(net)
    except nets.RefusedError as error:
        messages.error(request, str(error))
    return redirect("net", net.pk)


@require_POST
@owned
def delete(request: HttpRequest, owner: Workspace | None, key: UUID) -> HttpResponse:
    """Delete a net with its files."""
    net = _own(owner, key)
    storage.delete_net(net)
    messages.success(request, f"Deleted the net “{net.name}” and its files.")
    return redirect("nets")
