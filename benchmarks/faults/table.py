"""Tables of the README, from the result of a run: with weights, and without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

FORMATS = ("caffe", "mxnet", "onnx", "pytorch", "keras", "tensorflow", "darknet", "chainer")
COUNTS = (
    "faults", "effective", "compared", "found", "located", "in_table", "explained", "wrong", "equal_pairs",
    "false_alarms", "false_equals",
)  # fmt: skip


def rows(result: dict[str, Any]) -> Iterator[list[str]]:
    """Yield the rows of the first table: a name, how many nets, and the counts."""
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


def bare_rows(result: dict[str, Any]) -> Iterator[list[str]]:
    """Yield the rows of the table without weights: which net has none, and the counts of comparisons."""
    names, bare = (*COUNTS[2:], "told"), result["without_weights"]
    yield ["without weights", *(name.replace("_", " ") for name in names)]
    yield ["---"] * (1 + len(names))
    for lacking in ("B has none", "both have none"):
        for form in FORMATS:
            counts = bare["by"].get(f"format {form}, {lacking}")
            if counts is not None:
                yield [f"{form}, {lacking}", *_cells(counts, names)]
        if lacking in bare["by"]:
            yield [f"**{lacking}**", *_cells(bare["by"][lacking], names)]
    for half in ("seen", "unseen"):
        if f"half {half}" in bare["by"]:
            yield [f"**{half}**", *_cells(bare["by"][f"half {half}"], names)]
    yield ["**all**", *_cells(bare, names)]


def _cells(counts: dict[str, int], names: Sequence[str] = COUNTS) -> list[str]:
    return [str(counts[name]) for name in names]
