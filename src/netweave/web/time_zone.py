"""The time zone of the machine, in which pages show times."""

from __future__ import annotations

import os
from pathlib import Path
from zoneinfo import ZoneInfo

LOCALTIME = Path("/etc/localtime")
TIMEZONE = Path("/etc/timezone")


def machine_time_zone() -> str:
    """Return the zone that ``TZ`` or the system names; UTC if neither does."""
    names = [os.environ.get("TZ", "").lstrip(":"), _linked(), _written()]
    return next((name for name in names if _is_zone(name)), "UTC")


def _linked() -> str:
    """Return the name of the zone that ``/etc/localtime`` links to."""
    return str(LOCALTIME.resolve()).partition("/zoneinfo/")[2]


def _written() -> str:
    """Return the name in ``/etc/timezone``, where Debian's containers have it."""
    try:
        return TIMEZONE.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # unknown, a folder, or no plain name
        return False
    return bool(name)
