"""Make a file that fails as small as it can be while it fails in the same way."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.hostile.fork import forked
from benchmarks.hostile.worker import Meter, Outcome, limit, measure, outcome_of

if TYPE_CHECKING:
    from typing import IO

    from benchmarks.hostile.readers import Seed

MAX_TRIES = 400


def minimise(seed: Seed, content: bytes, outcome: Outcome) -> bytes:
    """Return a smaller content with the same fault: pieces are cut out as long as it stays."""
    size, tries = max(1, len(content) // 2), 0
    while size and tries < MAX_TRIES:
        at = 0
        while at < len(content) and tries < MAX_TRIES:
            smaller = content[:at] + content[at + size :]
            tries += 1
            if smaller and _is_same(_try(seed, smaller), outcome):
                content = smaller
            else:
                at += size
        size //= 2
    return content


def _is_same(found: Outcome, wanted: Outcome) -> bool:
    return found.kind == wanted.kind and found.key == wanted.key and found.faults == wanted.faults


def _try(seed: Seed, content: bytes) -> Outcome:
    def work(out: IO[str]) -> None:
        limit()
        with tempfile.TemporaryDirectory(prefix="hostile-") as folder, Meter() as meter:
            seed.write(Path(folder))
            found = measure(seed, Path(folder), content, 1, meter)
        print(json.dumps([found.kind, found.seconds, found.num_bytes, found.key]), file=out)

    lines, status = forked(work)
    return outcome_of(json.loads(lines[-1])) if lines else Outcome("crashed", 0.0, 0, f"status {status}")
