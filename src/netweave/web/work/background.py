"""The first thing that a worker's fork server imports: from then on it and its children leave others the way.

Niceness is inherited and cannot be taken back, so that it is set in the process from which all that is heavy
is forked: the imports of readers and runtimes, and every reading and comparing. The worker itself keeps its
priority, since it holds the database's lock for moments in which the pages wait.

Linux shares out the processor among sessions first ("autogroups"), and niceness counts only between processes
of one session. So the fork server gets a session of its own, which is nice as a whole: otherwise a worker's
session with its comparing process has as much of the processor as the server's with all pages.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

NICENESS = 10
"""A tenth of what a page gets; at 19 another program that uses all cores would all but stop comparisons."""

AUTOGROUP = Path("/proc/self/autogroup")


def step_back() -> None:
    """Let the pages go first, from this process and all that it starts."""
    os.nice(NICENESS)
    with suppress(OSError):  # it leads a session already; or a system without autogroups
        os.setsid()
    with suppress(OSError):
        AUTOGROUP.write_text(str(NICENESS))


step_back()
