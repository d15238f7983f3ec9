"""Names of uploaded files: kept in any script, since readers find weights by them, but safe in a folder."""

from __future__ import annotations

import re
import unicodedata

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
