"""How long the document takes that the page of a comparison draws, and how large it is, before and after.

::

    python -m benchmarks.document --before OTHER_CHECKOUT [--blocks 60] [--removed 3] [--runs 5]

The nets are those of ``benchmarks/scale``, with weights; 60 blocks are about 1,000 nodes, 1,250 are 20,000
and 27,000. Each run is a process of its own, which reads and compares the nets and then makes the document
and writes it as JSON, once, as a comparing process of the workbench does; the checkouts run in turns. Counted
is the processor time of the document and of its JSON alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.scale.generate import write_pair

ROOT = Path(__file__).parents[1]

MEASURED = """
import json, sys, time
from netweave import api
from netweave.viewer import comparison_document

found = api.compare(*map(api.load, sys.argv[1:]), keep_values=True)
begin = time.process_time()
document = comparison_document(found)
made = time.process_time()
text = json.dumps(document, separators=(",", ":"), allow_nan=False)
written = time.process_time()
print(json.dumps({"document": made - begin, "json": written - made, "bytes": len(text)}))
"""


def measured(checkout: Path, files: tuple[Path, Path]) -> dict[str, float]:
    """Return the figures of one process that runs the code of a checkout."""
    environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", MEASURED, *map(str, files)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def figures(runs: list[dict[str, float]]) -> dict[str, Any]:
    """Return the medians of several runs."""
    seconds = [run["document"] + run["json"] for run in runs]
    return {
        "seconds": round(statistics.median(seconds), 3),
        "least": round(min(seconds), 3),
        "most": round(max(seconds), 3),
        "of which json": round(statistics.median(run["json"] for run in runs), 3),
        "bytes": runs[0]["bytes"],
    }


def main() -> None:
    """Measure all checkouts in turns and print what they took."""
    parser = argparse.ArgumentParser(description="Time the document of a large comparison.")
    parser.add_argument("--before", type=Path, help="another checkout, which runs in turns with this one")
    parser.add_argument("--blocks", type=int, default=60)
    parser.add_argument("--removed", type=int, default=3)
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    checkouts = ({"before": asked.before.resolve()} if asked.before else {}) | {"now": ROOT}
    runs: dict[str, list[dict[str, float]]] = {label: [] for label in checkouts}
    with tempfile.TemporaryDirectory() as folder:
        files = write_pair(Path(folder), blocks=asked.blocks, removed=asked.removed)
        for _ in range(asked.runs):
            for label, path in checkouts.items():
                runs[label].append(measured(path, files))
    found: dict[str, Any] = {label: figures(rows) for label, rows in runs.items()}
    if "before" in found:
        found["ratio"] = round(found["now"]["seconds"] / found["before"]["seconds"], 3)
    print(json.dumps(found | {"load": [round(load, 1) for load in os.getloadavg()]}, indent=1))


if __name__ == "__main__":
    main()
