"""The project's own examples over HTTP."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest
from ninja import Router, Status

from netweave.web import nets
from netweave.web.http.schemas import Pair, Problem, SampleOut
from netweave.web.safety import count
from netweave.web.samples import samples

router = Router()


@router.get("", response=list[SampleOut], summary="List the samples")
def list_samples(request: HttpRequest) -> Any:
    """Pairs of nets to try the workbench with."""
    return list(samples().values())


@router.post("/{key}", response={201: Pair, 404: Problem, 429: Problem}, summary="Take a sample: two nets")
def take_sample(request: HttpRequest, key: str) -> Any:
    """The two nets are the caller's from then on."""
    sample = samples().get(key)
    if sample is None:
        raise Http404(f"there is no sample {key!r}")
    owner = request.auth  # type: ignore[attr-defined]  # django-ninja sets it
    count("uploads", str(owner.pk), limit=settings.OPTIONS.uploads_per_minute)
    pair = []
    for files in (sample.a, sample.b):
        net = nets.make_net(owner, name=next(iter(files)))
        nets.add_files(net, files)
        pair.append(net)
    return Status(201, dict(zip("ab", pair, strict=True)))
