"""Limits on how often something is done: counts in the database, so that they hold over all processes."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network, ip_address
from time import time as now
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import connection

from netweave.web.models import Count

if TYPE_CHECKING:
    from django.http import HttpRequest

WINDOW_SECONDS = 60
KEPT_WINDOWS = 10

_COUNT = f"""
    INSERT INTO {Count._meta.db_table} ("key", "window", "count") VALUES (%s, %s, 1)
    ON CONFLICT ("key", "window") DO UPDATE SET "count" = {Count._meta.db_table}."count" + 1
    WHERE {Count._meta.db_table}."count" < %s
"""
"""One statement, which others cannot come between: it changes no row when the limit is reached."""


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
    window = int(now()) // WINDOW_SECONDS
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, [f"{what}:{who}"[:100], window, limit])
        done = cursor.rowcount
    if not done:
        raise TooManyError(f"more than {limit} {what} in a minute; wait a minute and try again")


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
