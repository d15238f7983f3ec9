"""Isolation of users, and protection from uploads: headers, limits, names of files.

Limits on how often something is done are counts in the database, so that they hold over all processes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from ipaddress import IPv6Address, IPv6Network, ip_address
from time import time as now
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import connection

from netweave.web.models import Count

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

WINDOW_SECONDS = 60
KEPT_WINDOWS = 10

_COUNT = f"""
    INSERT INTO {Count._meta.db_table} ("key", "window", "count") VALUES (%s, %s, 1)
    ON CONFLICT ("key", "window") DO UPDATE SET "count" = {Count._meta.db_table}."count" + 1
    WHERE {Count._meta.db_table}."count" < %s
"""
"""One statement, which others cannot come between: it changes no row when the limit is reached."""

_COUNTED = f'SELECT "count" FROM {Count._meta.db_table} WHERE "key" = %s AND "window" = %s'


class TooManyError(Exception):
    """Something was done more often than is allowed; the message is for the user."""


def count(what: str, who: str, *, limit: int) -> None:
    """Count one more of something.

    Args:
        what: What is done, in words for the user (``uploads``).
        who: Whoever does it: an address, a workspace.
        limit: So often in a minute.

    Raises:
        TooManyError: It was done more often.
    """
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, [*_key(what, who), limit])
        done = cursor.rowcount
    if not done:
        raise _too_many(what, limit)


@contextmanager
def counted(what: str, who: str, *, limit: int, at_once: bool = False) -> Iterator[Callable[[], None]]:
    """Count one more of something in the transaction in which it is done, which saves a turn of its own.

    What fails, in that transaction or before it, counts as well. Whoever has reached the limit is refused
    before anything is done.

    Args:
        what: What is done, in words for the user.
        who: Whoever does it.
        limit: So often in a minute.
        at_once: It takes long: it is counted when it begins.

    Yields:
        What counts; it is called in the transaction, and raises ``TooManyError``, too.

    Raises:
        TooManyError: It was done more often.
    """
    if at_once:
        count(what, who, limit=limit)
        yield lambda: None
        return
    with connection.cursor() as cursor:
        cursor.execute(_COUNTED, _key(what, who))
        row = cursor.fetchone()
    if row is not None and row[0] >= limit:
        raise _too_many(what, limit)
    try:
        yield partial(count, what, who, limit=limit)
    except TooManyError:
        raise
    except BaseException:
        with suppress(TooManyError):
            count(what, who, limit=limit)
        raise


def _key(what: str, who: str) -> list[str | int]:
    return [f"{what}:{who}"[:100], int(now()) // WINDOW_SECONDS]


def _too_many(what: str, limit: int) -> TooManyError:
    return TooManyError(f"more than {limit} {what} in a minute; wait a minute and try again")


def forget_counts() -> int:
    """Delete the counts of windows that are over; return how many."""
    return Count.objects.filter(window__lt=int(now()) // WINDOW_SECONDS - KEPT_WINDOWS).delete()[0]


def client(request: HttpRequest) -> str:
    """Return the address of a browser; that of the last proxy's client where a proxy is known to say it.

    Of an IPv6 address it is the network of 64 bits: a client has all addresses in it.
    """
    forwarded = request.headers.get("X-Forwarded-For", "")
    said = str(request.META.get("REMOTE_ADDR", ""))
    if settings.OPTIONS.proxy and forwarded:
        said = forwarded.rsplit(",", 1)[-1].strip()
    try:
        address = ip_address(said)
    except ValueError:
        return said[:45]
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return str(IPv6Network((address, 64), strict=False).network_address)
    return str(getattr(address, "ipv4_mapped", None) or address)


MAX_CHARACTERS = 120

MAX_BYTES = 240
"""A file system takes 255 bytes, which are 85 Chinese characters."""

_PLAIN = frozenset(".+@ -_()")


def safe_name(name: str) -> str:
    """Return the last part of a name; all but letters, marks, digits and ``.+@ -_()`` becomes ``_``."""
    safe = "".join(c if _is_plain(c) else "_" for c in last_part(name))
    safe = re.sub(r"^\.+", "_", safe) or "_"
    safe = safe[-MAX_CHARACTERS:]  # readers go by the end of a name
    while len(safe.encode()) > MAX_BYTES:
        safe = safe[1:]
    return safe


def last_part(name: str) -> str:
    """Return a name without folders, in the normal form in which equal names have equal characters."""
    return re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1].strip()


def _is_plain(character: str) -> bool:
    # categories of letters, marks and numbers; no controls, and no marks that turn the writing direction
    return character in _PLAIN or unicodedata.category(character)[0] in "LMN"


POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",  # data: Bootstrap's icons; blob: pictures that the viewer exports
        "font-src 'self'",
        "connect-src 'self'",
        "worker-src blob:",  # the viewer's layout runs in a worker that it carries in its own script
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)

API_DOCS_POLICY = POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
"""Swagger UI sets styles in its markup; its page shows nothing that a user wrote."""


def headers(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Give every response a content security policy; what is private is never kept by caches on the way."""

    def respond(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        policy = API_DOCS_POLICY if request.path == "/api/docs" else POLICY
        response.headers.setdefault("Content-Security-Policy", policy)
        response.headers.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
        if not request.path.startswith("/static/"):
            response.headers.setdefault("Cache-Control", "private, no-cache")
        return response

    return respond
