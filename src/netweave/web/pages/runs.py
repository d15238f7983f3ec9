"""The pages of training runs: a list, and the curves and checkpoints of one, live."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.http import Http404, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from netweave import api
from netweave.web.pages.shared import owned

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from netweave.web.models import Workspace

LIVE_SECONDS = 60.0
"""A run whose files changed within this time is taken for running: events are written every few seconds."""

MAX_POINTS = 2000
"""More points than a screen has columns are thinned out."""


def _folder() -> Path:
    if not settings.OPTIONS.runs:
        raise Http404
    return Path(settings.OPTIONS.runs).expanduser()


def _run(request: HttpRequest) -> tuple[str, float]:
    """Return the run that is asked for, if it is one of the folder's, and when it last changed."""
    name = request.GET.get("run", "")
    found = api.find_runs(_folder())
    if name not in found:
        raise Http404
    return name, found[name]


@require_safe
@owned
def index(request: HttpRequest, owner: Workspace | None) -> HttpResponse:
    """Show the runs, those that changed last first."""
    found = sorted(api.find_runs(_folder()).items(), key=lambda row: row[1], reverse=True)
    rows = [
        {"name": name, "title": title(name), "changed": _time(changed), "live": _is_live(changed)}
        for name, changed in found
    ]
    return render(request, "web/runs.html", {"runs": rows, "folder": settings.OPTIONS.runs})


@require_safe
@owned
def show(request: HttpRequest, owner: Workspace | None) -> HttpResponse:
    """Show a run; the curves come by ``curves``."""
    name, changed = _run(request)
    return render(request, "web/run.html", {"name": name, "title": title(name), "live": _is_live(changed)})


@require_safe
@owned
def curves(request: HttpRequest, owner: Workspace | None) -> HttpResponse:
    """Return the curves and checkpoints of a run; nothing if it has not changed since ``since``."""
    name, changed = _run(request)
    if request.GET.get("since") == f"{changed:.3f}":
        return JsonResponse({"since": f"{changed:.3f}", "live": _is_live(changed)})
    folder = _folder() / name
    found = {tag: _thinned(points) for tag, points in api.read_curves(folder).items()}
    checkpoints: list[dict[str, Any]] = [
        {
            "name": checkpoint.name,
            "iteration": checkpoint.iteration,
            "num_bytes": checkpoint.num_bytes,
            "modified": _time(checkpoint.modified).isoformat(),
        }
        for checkpoint in api.find_checkpoints(folder)[:100]
    ]
    return JsonResponse(
        {
            "since": f"{changed:.3f}",
            "live": _is_live(changed),
            "curves": found,
            "checkpoints": checkpoints,
        }
    )


def title(name: str) -> str:
    """Return what a run is called."""
    return Path(settings.OPTIONS.runs).expanduser().resolve().name if name == "." else name


def _is_live(changed: float) -> bool:
    return time.time() - changed < LIVE_SECONDS


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _thinned(points: list[tuple[int, float]]) -> list[tuple[int, float | None]]:
    """Return every so many points, and the last; a value that is no number is a gap."""
    step = math.ceil(len(points) / MAX_POINTS)
    kept = points[::step] if step > 1 else points
    if kept and kept[-1] != points[-1]:
        kept = [*kept, points[-1]]
    return [(iteration, value if math.isfinite(value) else None) for iteration, value in kept]
