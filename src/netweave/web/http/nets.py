"""Nets over HTTP."""

from __future__ import annotations

import enum
import gzip
import json
import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.http import (
    FileResponse,
    Http404,
    HttpRequest,
    HttpResponse,
)
from django.utils.cache import patch_vary_headers
from django.utils.http import content_disposition_header
from ninja import Router, Schema, Status

from netweave import viewer
from netweave.web import nets
from netweave.web.comparisons import add_input
from netweave.web.http.schemas import NetChange, NetOut, NewNet, Offset, Pair, Problem, SampleOut
from netweave.web.models import Net
from netweave.web.nets import RefusedError
from netweave.web.prepared_statements import select_one
from netweave.web.safety import count
from netweave.web.samples import samples
from netweave.web.work import storage

router = Router()
input_router = Router()
sample_router = Router()


class OwnInputOut(Schema):
    """A file of inputs, to be named by its id when a comparison is started."""

    id: UUID
    name: str
    num_bytes: int


@input_router.put(
    "/{name}",
    response={201: OwnInputOut, 422: Problem, 429: Problem},
    summary="Upload inputs to run a comparison on",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
def upload_input(request: HttpRequest, name: str) -> Any:
    """An image, .npz or .npy; it goes with the last comparison that uses it, or after a day without one."""
    length = request.headers.get("Content-Length", "")
    own = add_input(
        request.auth,  # type: ignore[attr-defined]  # ninja sets it: the workspace
        name,
        request,  # type: ignore[arg-type]  # it is read like a file
        num_bytes=int(length) if length.isdecimal() else None,
    )
    return Status(201, own)


@sample_router.get("", response=list[SampleOut], summary="List the samples")
def list_samples(request: HttpRequest) -> Any:
    """Pairs of nets to try the workbench with."""
    return list(samples().values())


@sample_router.post(
    "/{key}", response={201: Pair, 404: Problem, 429: Problem}, summary="Take a sample: two nets"
)
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


class ExportKind(enum.StrEnum):
    """A kind of export, chosen by the ending of the file."""

    HTML = "html"
    JSON = "json"
    MARKDOWN = "md"
    PATCH = "patch"


def export_response(name: str, kind: ExportKind, *, document: str, result: str = "") -> HttpResponse:
    """Return a net or a comparison as a file.

    Args:
        name: What it is called.
        kind: What is wanted.
        document: Name in the storage of what the viewer shows.
        result: Name in the storage of a comparison's result, which is its JSON; a net's is the document.

    Raises:
        Http404: It is not there yet, or was deleted.
        RefusedError: There is no patch.
    """
    text = _stored(result if kind is ExportKind.JSON and result else document)
    content = _WRITERS[kind](name, text)
    # never shown by the browser as a page of the workbench, whatever it holds
    response = HttpResponse(content.encode(), content_type="application/octet-stream")
    stem = re.sub(r"[^\w.-]+", "-", name).strip("-.")[:80] or "net"
    header = content_disposition_header(True, f"{stem}.{kind}")
    response.headers["Content-Disposition"] = header or "attachment"
    return response


def _stored(name: str) -> str:
    if not name:
        raise Http404("not available yet; it is available once the state is 'done'")
    try:
        return storage.kept_text(name)
    except FileNotFoundError as error:
        raise Http404("it was deleted") from error


def _patch(name: str, text: str) -> str:
    patch: dict[str, Any] = json.loads(text).get("patch") or {}
    if not patch.get("diff"):
        raise RefusedError(patch.get("why") or "there is no fix of this comparison that a patch could hold")
    return str(patch["diff"])


_WRITERS: dict[ExportKind, Callable[[str, str], str]] = {
    ExportKind.HTML: viewer.stored_document_page,
    ExportKind.JSON: lambda name, text: text,
    ExportKind.MARKDOWN: lambda name, text: viewer.document_markdown(json.loads(text)),
    ExportKind.PATCH: _patch,
}


def document_response(request: HttpRequest, name: str) -> HttpResponse:
    """Return a stored document.

    Raises:
        Http404: There is none yet.
    """
    if not name:
        raise Http404("not available yet; it is available once the state is 'done'")
    try:
        content = storage.kept_bytes(name)
    except FileNotFoundError as error:
        raise Http404("it was deleted") from error
    packed = "gzip" in request.headers.get("Accept-Encoding", "")
    response = HttpResponse(content if packed else gzip.decompress(content), content_type="application/json")
    if packed:
        response.headers["Content-Encoding"] = "gzip"
    patch_vary_headers(response, ["Accept-Encoding"])
    return response


def own_net(request: HttpRequest, key: UUID) -> Net:
    """Return a net of the caller's; another's is not there."""
    net = select_one(Net, pk=key, workspace=request.auth)  # type: ignore[attr-defined]  # django-ninja sets it
    if net is None:
        raise Http404("there is no such net of yours")
    net.workspace = request.auth  # type: ignore[attr-defined]  # it was read with the cookie or the token
    return net


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


@router.get(
    "/{uuid:key}/arrays", response={422: Problem, 429: Problem}, summary="A stored array of the net as .npy"
)
def save_array(request: HttpRequest, key: UUID, name: str) -> Any:
    """The net is read once more for it; the name is the array's key in the document."""
    file = nets.open_array(own_net(request, key), name)
    stem = re.sub(r"[^\w.-]+", "-", name).strip("-.")[:80] or "array"
    return FileResponse(
        file, as_attachment=True, filename=f"{stem}.npy", content_type="application/octet-stream"
    )


@router.get("/{uuid:key}/export/{kind}", summary="The net as a file: html, json or md")
def export_net(request: HttpRequest, key: UUID, kind: ExportKind) -> HttpResponse:
    """A page that opens offline, what the viewer shows, or a text for an issue; there once it is read."""
    net = own_net(request, key)
    return export_response(net.name, kind, document=net.document)
