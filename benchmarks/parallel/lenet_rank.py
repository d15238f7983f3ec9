"""One rank that trains LeNet on the digits of ``examples/lenet`` and notes the loss of each update.

python -m benchmarks.parallel.lenet_rank SOLVER RESULT
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from time import perf_counter

from netweave import api
from netweave.training import Event, Updated


def main(solver: Path, result: Path) -> None:
    """Train to the end; the first rank leaves losses and moments in a file."""
    losses: list[float] = []
    moments: list[float] = []

    def watch(event: Event) -> None:
        if isinstance(event, Updated):
            losses.append(event.loss)
            moments.append(perf_counter())

    job = api.load_job(solver)
    api.train(job, watch=watch, batch="split")
    if os.environ.get("RANK", "0") == "0":
        batch = job.phases["train"].data[0].batch_size
        result.write_text(json.dumps({"batch": batch, "losses": losses, "moments": moments}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
