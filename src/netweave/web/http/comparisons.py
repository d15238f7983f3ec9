"""Comparisons over HTTP."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.http import content_disposition_header
from ninja import Query, Router, Status

from netweave.web import comparisons
from netweave.web.http.nets import ExportKind, document_response, export_response, own_net
from netweave.web.http.schemas import ComparisonOut, NewComparison, Offset, Problem, Rename
from netweave.web.models import Comparison, OwnInput
from netweave.web.nets import RefusedError
from netweave.web.work import leases

router = Router()

Finding = Annotated[int | None, Query(ge=0, description="Number of the finding; all if it is left out")]


def own_comparison(request: HttpRequest, key: UUID) -> Comparison:
    """Return a comparison of the caller's; another's is not there."""
    return get_object_or_404(Comparison, pk=key, workspace=request.auth)  # type: ignore[attr-defined]  # django-ninja sets it


@router.get("", response=list[ComparisonOut], summary="List comparisons, newest first")
def list_comparisons(request: HttpRequest, offset: Offset = 0) -> Any:
    """At most 100 at a time."""
    mine = Comparison.objects.filter(workspace=request.auth)  # type: ignore[attr-defined]  # django-ninja sets it
    return list(mine[offset : offset + 100])


@router.post("", response={202: ComparisonOut, 422: Problem, 429: Problem}, summary="Compare two nets")
def start_comparison(request: HttpRequest, body: NewComparison) -> Any:
    """Accepted means queued: it is carried out once, also if the workbench is restarted in between."""
    a, b = own_net(request, body.a), own_net(request, body.b)
    chosen = body.dict(exclude={"a", "b", "name", "own_input"})
    own = None
    if body.own_input is not None:
        workspace = request.auth  # type: ignore[attr-defined]  # ninja sets it
        own = get_object_or_404(OwnInput, pk=body.own_input, workspace=workspace)
    return Status(202, comparisons.start(a, b, name=body.name, chosen=chosen, own_input=own))


@router.get("/{uuid:key}", response=ComparisonOut, summary="Say how far a comparison is")
def show_comparison(request: HttpRequest, key: UUID) -> Any:
    """While it is queued or running, ask again."""
    return own_comparison(request, key)


@router.patch("/{uuid:key}", response=ComparisonOut, summary="Rename a comparison")
def rename_comparison(request: HttpRequest, key: UUID, body: Rename) -> Any:
    """An empty name leaves the old one."""
    comparison = own_comparison(request, key)
    comparisons.rename(comparison, body.name)
    return comparison


@router.delete("/{uuid:key}", response={204: None}, summary="Delete a comparison with its result")
def delete_comparison(request: HttpRequest, key: UUID) -> Any:
    """Its shared link ends too; the nets stay."""
    comparisons.delete(own_comparison(request, key))
    return Status(204, None)


@router.post("/{uuid:key}/cancel", response=ComparisonOut, summary="Stop a comparison")
def cancel_comparison(request: HttpRequest, key: UUID) -> Any:
    """One that is done stays as it is."""
    comparison = own_comparison(request, key)
    leases.cancel(comparison)
    comparison.refresh_from_db()
    return comparison


@router.post("/{uuid:key}/share", response=ComparisonOut, summary="Make a link that anybody may open")
def share_comparison(request: HttpRequest, key: UUID) -> Any:
    """Whoever has the link sees the comparison, and can change nothing."""
    comparison = own_comparison(request, key)
    comparison.make_share()
    return comparison


@router.delete("/{uuid:key}/share", response=ComparisonOut, summary="End the shared link")
def unshare_comparison(request: HttpRequest, key: UUID) -> Any:
    """A link that is made later is another one."""
    comparison = own_comparison(request, key)
    comparisons.unshare(comparison)
    return comparison


@router.get("/{uuid:key}/fix", summary="The file of the second net with fixes applied")
def mended_file(request: HttpRequest, key: UUID, finding: Finding = None) -> HttpResponse:
    """With all fixes, or with that of one finding; 422 where none can be applied to the text of one file."""
    files = comparisons.mended_files(own_comparison(request, key), finding)
    if len(files) > 1:
        raise RefusedError("the fixes change several files; take the patch")
    ((name, content),) = files.items()
    response = HttpResponse(content, content_type="application/octet-stream")
    response.headers["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    return response


@router.post(
    "/{uuid:key}/fix",
    response={202: ComparisonOut, 422: Problem, 429: Problem},
    summary="Apply fixes and compare again",
)
def apply_fix(request: HttpRequest, key: UUID, finding: Finding = None) -> Any:
    """The mended net is a new one; the nets of this comparison stay as they are."""
    return Status(202, comparisons.apply_fix(own_comparison(request, key), finding))


@router.get("/{uuid:key}/result", summary="The result, as 'netweave compare --json' writes it")
def comparison_result(request: HttpRequest, key: UUID) -> HttpResponse:
    """There once the comparison is done."""
    return document_response(request, own_comparison(request, key).result)


@router.get("/{uuid:key}/document", summary="The comparison as the viewer shows it, as JSON")
def comparison_document(request: HttpRequest, key: UUID) -> HttpResponse:
    """There once the comparison is done."""
    return document_response(request, own_comparison(request, key).document)


@router.get("/{uuid:key}/export/{kind}", summary="The comparison as a file: html, json, md or patch")
def export_comparison(request: HttpRequest, key: UUID, kind: ExportKind) -> HttpResponse:
    """A page that opens offline, the result, a text for an issue, or all fixes; there once it is done."""
    comparison = own_comparison(request, key)
    return export_response(comparison.name, kind, document=comparison.document, result=comparison.result)
