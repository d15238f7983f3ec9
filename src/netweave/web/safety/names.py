"""Names of uploaded files: kept, since readers find weights by them, but made safe for a folder."""

from __future__ import annotations

import re

MAX_CHARACTERS = 120

_UNSAFE = re.compile(r"[^\w.+@ -]", re.ASCII)


def safe_name(name: str) -> str:
    """Return the last part of a name, all but ASCII letters, digits and ``.+@ -_`` made ``_``."""
    last = re.split(r"[/\\]", name)[-1].strip()
    safe = _UNSAFE.sub("_", last)
    safe = re.sub(r"^\.+", "_", safe) or "_"
    if len(safe) <= MAX_CHARACTERS:
        return safe
    # readers go by the end of a name
    return safe[-MAX_CHARACTERS:]
