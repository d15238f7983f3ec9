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
from netweave.web import trainings
from netweave.web.pages.shared import owned

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from netweave.web.models import Workspace

LIVE_SECONDS = 60.0
"""A run whose files changed within this time is taken for running: events are written every few seconds."""

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
    found = api.find_runs(_folder())
    return {**trainings.started_runs(), **found}


def _runs(request: HttpRequest) -> dict[str, float]:
    """Return the runs that are asked for, if they are the folder's, and when each last changed."""
    names = request.GET.getlist("run")
    found = _known_runs()
    if not names or any(name not in found for name in names):
        raise Http404
    return {name: found[name] for name in names[:MAX_RUNS]}


@require_safe
@owned
def index(request: HttpRequest, owner: Workspace | None) -> HttpResponse:
    """Show the runs, those that changed last first."""
    found = sorted(_known_runs().items(), key=lambda row: row[1], reverse=True)
    rows = [
        {"name": name, "title": title(name), "changed": _time(changed), "live": _is_live(changed)}
        for name, changed in found
    ]
    return render(request, "web/runs.html", {"runs": rows, "folder": settings.OPTIONS.runs})


@require_safe
@owned
def show(request: HttpRequest, owner: Workspace | None) -> HttpResponse:
    """Show one run, or several over each other; the curves come by ``curves``."""
    found = _runs(request)
    runs = [{"name": name, "title": title(name)} for name in found]
    context = {
        "runs": runs,
        "title": runs[0]["title"] if len(runs) == 1 else f"{len(runs)} runs",
        "live": any(map(_is_live, found.values())),
        "axes": AXES,
    }
    if len(runs) == 1 and settings.OPTIONS.training:
        training = trainings.find(runs[0]["name"])
        context |= {"training": training, "run": runs[0]["name"]}
        context["last_words"] = trainings.last_words(runs[0]["name"]) if training else ""
    return render(request, "web/run.html", context)


@require_safe
@owned
def curves(request: HttpRequest, owner: Workspace | None) -> HttpResponse:
    """Return the curves and checkpoints of a run; nothing if it has not changed since ``since``."""
    ((name, changed), *_) = _runs(request).items()
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
