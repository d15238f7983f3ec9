"""Files of inputs over HTTP."""

from __future__ import annotations

from typing import Any
from uuid import UUID  # noqa: TC003 (read at run time)

from django.http import HttpRequest  # noqa: TC002 (read at run time)
from ninja import Router, Schema, Status

from netweave.web.http.schemas import Problem
from netweave.web.own_inputs import add_input

router = Router()


class OwnInputOut(Schema):
    """A file of inputs, to be named by its id when a comparison is started."""

    id: UUID
    name: str
    num_bytes: int


@router.put(
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
