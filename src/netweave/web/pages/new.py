"""Page 1: the place for files of any nets, and two places for a pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.shortcuts import render
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

from netweave.web.choices import COLORS
from netweave.web.models import Comparison, Net, State, Workspace
from netweave.web.pages.shared import owned
from netweave.web.samples import samples

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


LATEST = 3


@require_safe
@ensure_csrf_cookie
@owned
def show(request: HttpRequest, owner: Workspace | None) -> HttpResponse:
    """Show the two places for files, the samples, and the latest comparisons."""
    latest = Comparison.objects.filter(workspace=owner)[:LATEST] if owner else []
    nets = Net.objects.filter(workspace=owner).exclude(state=State.EMPTY)[:LATEST] if owner else []
    context = {"samples": samples().values(), "latest": latest, "nets": nets, "colors": COLORS}
    return render(request, "web/new.html", context)
