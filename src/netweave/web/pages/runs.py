"""Pages of runs."""

from __future__ import annotations

import math
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.http import Http404, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from netweave import api
from netweave.web import trainings
from netweave.web.models import Workspace
from netweave.web.nets import RefusedError
from netweave.web.pages.shared import owned

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


MAX_POINTS = 2000
"""More points than a screen has columns are thinned out."""

MAX_RUNS = 16
"""Runs that are shown over each other; more cannot be told apart."""

AXES = ("automatic", "linear", "logarithmic")
"""How the vertical axis goes (``frontend/src/web/chart.ts``)."""


def _folder() -> Path:
    if not settings.OPTIONS.runs:
        raise Http404
    return Path(settings.OPTIONS.runs).expanduser()


def _known_runs() -> dict[str, float]:
    """Return all runs with their last changes; those that were started here may have no events yet."""
    changed = api.find_runs(_folder())
    return {**trainings.started_runs(), **changed}


def _runs(request: HttpRequest) -> dict[str, float]:
    """Return the runs that are asked for, if they are the folder's, and when each last changed."""
    names = request.GET.getlist("run")
    known = _known_runs()
    if not names or any(name not in known for name in names):
        raise Http404
    return {name: known[name] for name in names[:MAX_RUNS]}


@require_safe
@owned
def index(request: HttpRequest, owner: Workspace | None) -> HttpResponse:
    """Show the runs, those that changed last first."""
    newest_first = sorted(_known_runs().items(), key=lambda row: row[1], reverse=True)
    rows = [
        {"name": name, "title": title(name), "changed": _time(changed), "status": trainings.status(name)}
        for name, changed in newest_first
    ]
    return render(request, "web/runs.html", {"runs": rows, "folder": settings.OPTIONS.runs})


@require_safe
@owned
def show(request: HttpRequest, owner: Workspace | None) -> HttpResponse:
    """Show one run, or several over each other; the curves come by ``curves``."""
    runs_shown = _runs(request)
    runs: list[dict[str, Any]] = [
        {"name": name, "title": title(name), "status": trainings.status(name)} for name in runs_shown
    ]
    context = {
        "runs": runs,
        "title": runs[0]["title"] if len(runs) == 1 else f"{len(runs)} runs",
        "states": sorted({run["status"].state for run in runs}),
        "axes": AXES,
    }
    if len(runs) == 1:
        name = runs[0]["name"]
        context |= {"run": name, "status": runs[0]["status"]}
        if settings.OPTIONS.training and trainings.find(name) is not None:
            context |= {
                "is_ours": True,
                "can_continue": not trainings.reason_not_to_continue(name),
                "last_words": trainings.last_words(name),
            }
    return render(request, "web/run.html", context)


@require_safe
@owned
def curves(request: HttpRequest, owner: Workspace | None) -> HttpResponse:
    """Return curves, goodput and checkpoints of a run; nothing if it has not changed since ``since``."""
    ((name, changed), *_) = _runs(request).items()
    answer: dict[str, Any] = {"since": f"{changed:.3f}", "state": trainings.status(name).state}
    if request.GET.get("since") == answer["since"]:
        return JsonResponse(answer)
    folder = _folder() / name
    thinned = {tag: _thinned(points) for tag, points in api.read_curves(folder).items()}
    checkpoints: list[dict[str, Any]] = [
        {
            "name": checkpoint.name,
            "iteration": checkpoint.iteration,
            "num_bytes": checkpoint.num_bytes,
            "modified": _time(checkpoint.modified).isoformat(),
        }
        for checkpoint in api.find_checkpoints(folder)[:100]
    ]
    goodput = api.run_goodput(folder)
    answer |= {"curves": thinned, "checkpoints": checkpoints, "goodput": goodput and asdict(goodput)}
    return JsonResponse(answer)


def title(name: str) -> str:
    """Return what a run is called."""
    return Path(settings.OPTIONS.runs).expanduser().resolve().name if name == "." else name


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _thinned(points: list[tuple[int, float]]) -> list[tuple[int, float | None]]:
    """Return every so many points, and the last; a value that is no number is a gap."""
    step = math.ceil(len(points) / MAX_POINTS)
    kept = points[::step] if step > 1 else points
    if kept and kept[-1] != points[-1]:
        kept = [*kept, points[-1]]
    return [(iteration, value if math.isfinite(value) else None) for iteration, value in kept]


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
