"""The table of the README, from the result of a run.

::

    python -m benchmarks.faults.table [RESULT]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMATS = ("caffe", "mxnet", "onnx", "pytorch", "keras", "tensorflow", "darknet", "chainer")
COUNTS = (
    "faults", "effective", "compared", "found", "located", "in_table", "explained", "wrong", "equal_pairs",
    "false_alarms",
)  # fmt: skip


def rows(result: dict[str, Any]) -> Iterator[list[str]]:
    """Yield the rows of the table: a name, how many nets, and the counts."""
    yield ["", "nets", *(name.replace("_", " ") for name in COUNTS)]
    yield ["---"] * (2 + len(COUNTS))
    for half in ("seen", "unseen"):
        nets = [net for net, drawn in result["halves"].items() if drawn == half]
        for form in FORMATS:
            counts = result["by"].get(f"format {form}, half {half}")
            if counts is not None:
                own = [net for net in nets if net.startswith(f"{form}-")]
                yield [f"{form}, {half}", str(len(own)), *_cells(counts)]
        if nets:
            yield [f"**{half}**", str(len(nets)), *_cells(result["by"][f"half {half}"])]
    yield ["**all**", str(len(result["halves"])), *_cells(result)]


def _cells(counts: dict[str, int]) -> list[str]:
    return [str(counts[name]) for name in COUNTS]


if __name__ == "__main__":
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("result.json")
    for row in rows(json.loads(path.read_text())):
        print(f"| {' | '.join(row)} |")
