"""Opening the page in the browser of whoever started the workbench."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def has_desktop() -> bool:
    """Return whether a browser would have a window.

    Without a desktop, Python would start a text browser in the terminal.
    """
    if os.environ.get("SSH_CONNECTION"):
        return False  # the window would be on the other machine, if anywhere
    return sys.platform in {"darwin", "win32"} or any(os.environ.get(name) for name in DISPLAYS)


def open_page(address: str) -> None:
    """Open an address, without waiting for the browser; that there is none is no error."""
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
