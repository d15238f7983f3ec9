"""The figures as a picture: for each net a bar for each candidate, relative to Netweave in the same run."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from pathlib import Path

from matplotlib import pyplot


def draw(results: dict[str, Any], path: Path) -> None:
    """Write the picture."""
    figure, _ = pyplot.subplots(1, len(results["nets"]), figsize=(3.2 * len(results["nets"]), 2.8))
    for axis, (name, runs) in zip(figure.axes, results["nets"].items(), strict=True):
        rows: dict[str, list[float]] = {}
        for run in runs:
            own = run["netweave"]["wall"][0]
            rows |= {key: [value / own for value in row["wall"]] for key, row in run.items()}
        names = list(reversed(rows))
        medians = [rows[key][0] for key in names]
        errors = [
            [rows[key][0] - rows[key][1] for key in names],
            [rows[key][2] - rows[key][0] for key in names],
        ]
        colours = ["#2563eb" if key == "netweave" else "#cbd5e1" for key in names]
        axis.barh(names, medians, xerr=errors, color=colours, ecolor="#64748b", error_kw={"linewidth": 1})
        axis.axvline(1, color="#2563eb", linewidth=0.8)
        axis.set_title(f"{name}\nNetweave: {runs[0]['netweave']['wall'][0]:,.0f} ms", fontsize=9)
        axis.tick_params(labelsize=8, length=0)
        axis.spines[["top", "right", "left"]].set_visible(False)
    figure.supxlabel("time of a training step, Netweave = 1", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
