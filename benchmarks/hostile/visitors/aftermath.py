"""What a workbench holds that nothing names, a day later: looked at past the workbench, in files and tables.

``python -m benchmarks.hostile.visitors.aftermath`` runs in the environment of a workbench that has stopped.
It does what a worker does now and then, with the clock two days ahead, and prints as JSON what is left.
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from datetime import timedelta
from pathlib import Path

COLUMNS = (
    ("web_file", "stored"),
    ("web_upload", "stored"),
    ("web_owninput", "stored"),
    ("web_net", "document"),
    ("web_comparison", "result"),
    ("web_comparison", "document"),
    ("web_comparison", "fixes"),
)
"""Where rows name stored files."""


def main() -> None:
    """Sweep as a worker does, and print what is left."""
    import django

    django.setup()
    from django.utils import timezone

    from netweave.web.work import storage

    today, now = timezone.now(), storage.time.time()
    timezone.now = lambda: today + timedelta(days=2)
    storage.time.time = lambda: now + 2 * 24 * 3600
    swept = {
        "scratch folders": storage.remove_left_scratch(),
        "uploads": storage.release_abandoned(),
        "files": storage.remove_unnamed_files(),
        "rows": storage.forget(),
    }
    data = Path(os.environ["NETWEAVE_DATA"])
    print(json.dumps({"swept": swept, "left": left(data, Path(tempfile.gettempdir()))}))


def left(data: Path, scratch: Path) -> dict[str, int]:
    """Return how much there is that nothing needs, of each kind."""
    with sqlite3.connect(data / "netweave.sqlite3") as database:
        named = {
            name
            for table, column in COLUMNS
            for (name,) in database.execute(f"select {column} from {table}")
            if name
        }
        (uploads,) = database.execute("select count(*) from web_upload").fetchone()
        entries = "select count(*) from django_tasks_database_dbtaskresult where status != 'READY'"
        (entries,) = database.execute(entries).fetchone()
        (empty,) = database.execute("select count(*) from web_net where state = 'empty'").fetchone()
    files = {
        path.relative_to(data / "files").as_posix() for path in (data / "files").rglob("*") if path.is_file()
    }
    return {
        "temporary files": sum(1 for path in scratch.rglob("*") if path.is_file()),
        "stored files without a row": len(files - named),
        "rows without their stored file": len(named - files),
        "uploads": uploads,
        "entries of the queue": entries,
        "nets without files": empty,
    }


if __name__ == "__main__":
    main()
