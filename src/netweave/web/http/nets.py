"""Nets over HTTP."""

from __future__ import annotations

from typing import Any
from uuid import UUID  # noqa: TC003 (read at run time)

from django.conf import settings
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from ninja import Router, Status

from netweave.web import nets
from netweave.web.http.documents import document_response
from netweave.web.http.exports import ExportKind, export_response
from netweave.web.http.schemas import NetChange, NetOut, NewNet, Offset, Problem
from netweave.web.models import Net
from netweave.web.safety import count
from netweave.web.statements import select_one
from netweave.web.work import storage

router = Router()


def own_net(request: HttpRequest, key: UUID) -> Net:
    """Return a net of the caller's; another's is not there."""
    found = select_one(Net, pk=key, workspace=request.auth)  # type: ignore[attr-defined]  # django-ninja sets it
    if found is None:
        raise Http404("there is no such net of yours")
    found.workspace = request.auth  # type: ignore[attr-defined]  # it was read with the cookie or the token
    return found


@router.get("", response=list[NetOut], summary="List nets, newest first")
def list_nets(request: HttpRequest, offset: Offset = 0) -> Any:
    """At most 100 at a time."""
    mine = Net.objects.filter(workspace=request.auth).prefetch_related("files")  # type: ignore[attr-defined]  # django-ninja sets it
    return list(mine[offset : offset + 100])


@router.post("", response={201: NetOut, 429: Problem}, summary="Make a net that waits for its files")
def make_net(request: HttpRequest, body: NewNet) -> Any:
    """Its files are uploaded one by one."""
    with transaction.atomic():
        count("nets", str(request.auth.pk), limit=settings.OPTIONS.nets_per_minute)  # type: ignore[attr-defined]  # django-ninja sets it
        made = nets.make_net(request.auth, name=body.name, input_shapes=body.input_shapes, entry=body.entry)  # type: ignore[attr-defined]  # django-ninja sets it
    return Status(201, made)


@router.get("/{uuid:key}", response=NetOut, summary="Say what was read of a net")
def show_net(request: HttpRequest, key: UUID) -> Any:
    """While it is queued or running, ask again."""
    return own_net(request, key)


@router.patch(
    "/{uuid:key}", response=NetOut, summary="Rename a net, give sizes of its inputs, or name its class"
)
def change_net(request: HttpRequest, key: UUID, body: NetChange) -> Any:
    """With other sizes or another class it is read again."""
    net = own_net(request, key)
    nets.change_net(net, name=body.name, input_shapes=body.input_shapes, entry=body.entry)
    return net


@router.delete("/{uuid:key}", response={204: None}, summary="Delete a net with its files")
def delete_net(request: HttpRequest, key: UUID) -> Any:
    """Comparisons with it keep their results."""
    storage.delete_net(own_net(request, key))
    return Status(204, None)


@router.put(
    "/{uuid:key}/files/{name}",
    response={201: NetOut, 422: Problem, 429: Problem},
    summary="Upload a file of a net",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
def add_file(request: HttpRequest, key: UUID, name: str) -> Any:
    """The body is the file. The net is read again with each file that arrives."""
    net = own_net(request, key)
    length = request.headers.get("Content-Length", "")
    nets.add_file(net, name, request, num_bytes=int(length) if length.isdecimal() else None)  # type: ignore[arg-type]  # a request is read as a file
    return Status(201, net)


@router.delete(
    "/{uuid:key}/files/{name}", response={200: NetOut, 404: Problem}, summary="Remove a file of a net"
)
def remove_file(request: HttpRequest, key: UUID, name: str) -> Any:
    """The net is read again without it."""
    net = own_net(request, key)
    if not nets.remove_file(net, name):
        return Status(404, {"detail": f"the net has no file {name!r}"})
    net.refresh_from_db()
    return net


@router.post(
    "/{uuid:key}/allow-code",
    response={200: NetOut, 422: Problem},
    summary="Allow files that contain code on one's own machine, and read the net again",
)
def allow_code(request: HttpRequest, key: UUID) -> Any:
    """From then on such files are read in a sandbox; for a team it is the operator's setting ``code``."""
    net = own_net(request, key)
    nets.allow_code(net)
    return net


@router.get("/{uuid:key}/document", summary="The net as the viewer shows it, as JSON")
def net_document(request: HttpRequest, key: UUID) -> HttpResponse:
    """Layers, nodes, edges and figures; there once the net is read."""
    return document_response(request, own_net(request, key).document)


@router.get("/{uuid:key}/export/{kind}", summary="The net as a file: html, json or md")
def export_net(request: HttpRequest, key: UUID, kind: ExportKind) -> HttpResponse:
    """A page that opens offline, what the viewer shows, or a text for an issue; there once it is read."""
    found = own_net(request, key)
    return export_response(found.name, kind, document=found.document)
