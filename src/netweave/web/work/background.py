"""The first thing that a worker's fork server imports: from then on it and its children leave others the way.

Niceness is inherited and cannot be taken back, so that it is set in the process from which all that is heavy
is forked: the imports of readers and runtimes, and every reading and comparing. The worker itself keeps its
priority, since it holds the database's lock for moments in which the pages wait.

Linux shares out the processor among sessions first, and niceness counts only between processes of one session
("autogroups"): so server and workers are of one session (``web.serve``).
"""

from __future__ import annotations

import os

NICENESS = 10
"""A tenth of what a page gets; at 19 another program that uses all cores would all but stop comparisons."""

os.nice(NICENESS)
