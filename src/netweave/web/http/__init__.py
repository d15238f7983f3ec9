"""The HTTP API: what the pages do, for programs; described by OpenAPI at ``/api/openapi.json``."""

from netweave.web.http.api import api

__all__ = ["api"]
