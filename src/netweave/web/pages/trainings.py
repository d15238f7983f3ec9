"""Starting a training from the page, stopping it, and having it go on."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.http import Http404
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from netweave.web import trainings
from netweave.web.nets import RefusedError
from netweave.web.pages.shared import owned

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from netweave.web.models import Workspace


@require_http_methods(["GET", "HEAD", "POST"])
@owned
def start(request: HttpRequest, owner: Workspace | None) -> HttpResponse:
    """Show the form, and start what it says."""
    _check_offered()
    problem = ""
    if request.method == "POST":
        try:
            return redirect(_address(_start(request)))
        except RefusedError as error:
            problem = str(error)
    context = {
        "problem": problem or trainings.missing(),
        "folders": trainings.data_folders(),
        "root": settings.OPTIONS.training,
        "given": request.POST,
    }
    return render(request, "web/train.html", context, status=422 if request.method == "POST" else 200)


@require_POST
@owned
def stop(request: HttpRequest, owner: Workspace | None) -> HttpResponse:
    """Have a training write a checkpoint and end."""
    _check_offered()
    name = _started(request)
    trainings.stop(name)
    messages.success(request, f"“{name}” writes a checkpoint and ends.")
    return redirect(_address(name))


@require_POST
@owned
def resume(request: HttpRequest, owner: Workspace | None) -> HttpResponse:
    """Have a training go on from its latest checkpoint."""
    _check_offered()
    name = _started(request)
    try:
        trainings.resume(name)
    except RefusedError as error:
        messages.error(request, str(error))
    return redirect(_address(name))


def _start(request: HttpRequest) -> str:
    solver = request.FILES.get("solver")
    if solver is None or not solver.name:
        raise RefusedError("choose a solver")
    uploads = [solver, *request.FILES.getlist("nets")]
    if any((upload.size or 0) > trainings.MAX_FILE_BYTES for upload in uploads):
        raise RefusedError(f"a file is larger than {trainings.MAX_FILE_BYTES >> 20} MiB")
    files = {str(upload.name): upload.read() for upload in uploads[: trainings.MAX_FILES + 1]}
    name = request.POST.get("name", "").strip()
    return trainings.start(name, solver.name, files, request.POST.get("data", ""))


def _started(request: HttpRequest) -> str:
    """Return the run that a form names, if it was started here."""
    name = request.POST.get("run", "")
    if name not in trainings.started_runs():
        raise Http404
    return name


def _check_offered() -> None:
    if not settings.OPTIONS.training or not settings.OPTIONS.runs:
        raise Http404


def _address(name: str) -> str:
    return f"{reverse('run')}?{urlencode({'run': name})}"
