"""The page that explains the workbench."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.shortcuts import render
from django.views.decorators.http import require_safe

from netweave import api

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


@require_safe
def show(request: HttpRequest) -> HttpResponse:
    """Show the help, with the formats that can be read."""
    return render(request, "web/help.html", {"formats": api.formats(), "verdicts": list(api.Verdict)})
