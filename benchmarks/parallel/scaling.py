"""The scaling curve on this machine: images per second, samples to a given loss, and what hides the exchange.

    python -m benchmarks parallel.scaling [--most N] [--json FILE] [--picture FILE]

One to ``--most`` ranks on the loopback share a batch: ResNet-18 for images per second, and the shares of the
time that processor and link were busy, from the timeline of the first rank; LeNet on the digits of
``examples/lenet`` for the samples and seconds until the mean loss of 20 updates is small. Threads are what
the machine has, divided.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl

from benchmarks.parallel.ranks import started
from benchmarks.parallel.timeline import shares
from benchmarks.record import Namespace, Record, option
from netweave.training.parallel.launcher import Launcher

mpl.use("Agg")
from matplotlib import pyplot

NET, BATCH, ROUNDS, STEPS, TRACED_STEPS = "ResNet-18", 48, 3, 4, 4
LENET_UPDATES, AVERAGED, WANTED_LOSS = 200, 20, 0.2
EXAMPLE = Path(__file__).parents[2] / "examples" / "lenet"


def images_per_s(num_ranks: int) -> dict[str, Any]:
    """Return the speed of ResNet-18 on so many ranks, and the shares of the first."""
    threads = str(max(1, (os.cpu_count() or 1) // num_ranks))
    name = "netweave:overlapped" if num_ranks > 1 else "netweave:alone:stages=1"
    environment = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    with (
        tempfile.TemporaryDirectory() as folder,
        started(NET, BATCH, count=num_ranks, environment=environment) as ranks,
    ):
        ranks.ask("load", name=name)
        speeds = []
        for _ in range(ROUNDS):
            known = ranks.ask("steps", name=name, count=STEPS + 1)[0]["known_s"]
            speeds.append(BATCH * STEPS / (known[-1] - known[0]))
        ranks.ask("trace", name=name, count=TRACED_STEPS, path=f"{folder}/trace")
        found = asdict(shares(Path(f"{folder}/trace.0.json")))
    found = {key: round(value, 3) for key, value in found.items()}
    return {
        "images/s": round(median(speeds), 2),
        "least": round(min(speeds), 2),
        "most": round(max(speeds), 2),
    } | found


def samples_to_loss(num_ranks: int) -> dict[str, Any]:
    """Return after how many samples, and seconds, LeNet's loss is small, and all losses."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "lenet")
        shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("*_lmdb", "snapshots"))
        before = Path.cwd()
        os.chdir(folder)
        try:
            subprocess.run([sys.executable, "make_data.py"], check=True, stdout=subprocess.DEVNULL)
            solver = Path("solver.prototxt")
            solver.write_text(
                solver.read_text().replace("max_iter: 600", f"max_iter: {LENET_UPDATES}")
                + "\nsnapshot_after_train: false\n"
            )
            command = [
                sys.executable,
                "-m",
                "benchmarks.parallel.lenet_rank",
                "solver.prototxt",
                "result.json",
            ]
            path = os.pathsep.join([str(before), str(before / "src")])
            launcher = Launcher(command, ["cpu"] * num_ranks, 0, print, environment={"PYTHONPATH": path})
            assert launcher.run() == 0
            found = json.loads(Path("result.json").read_text())
        finally:
            os.chdir(before)
    losses, batch = found["losses"], found["batch"]
    means = [sum(losses[end - AVERAGED : end]) / AVERAGED for end in range(AVERAGED, len(losses) + 1)]
    reached = next(number for number, mean in enumerate(means) if mean <= WANTED_LOSS) + AVERAGED - 1
    return {
        "samples": (reached + 1) * batch,
        "seconds": round(found["moments"][reached] - found["moments"][0], 2),
        "losses": [round(loss, 6) for loss in losses],
        "batch": batch,
    }


def draw(results: dict[str, Any], path: Path) -> None:
    """Write the picture."""
    counts = [int(count) for count in results["images/s"]]
    rows = list(results["images/s"].values())
    figure, (speed, loss, time) = pyplot.subplots(1, 3, figsize=(10, 2.9))
    speed.errorbar(
        counts,
        [row["images/s"] for row in rows],
        yerr=[
            [row["images/s"] - row["least"] for row in rows],
            [row["most"] - row["images/s"] for row in rows],
        ],
        marker="o",
        color="#2563eb",
        capsize=3,
    )
    speed.set_ylim(bottom=0)
    speed.set_title(f"ResNet-18: images/s ({results['cores']} cores)", fontsize=9)
    for count, row in results["samples to loss"].items():
        losses = row["losses"]
        samples = [(number + 1) * row["batch"] for number in range(len(losses))]
        loss.plot(
            samples,
            losses,
            label=f"{count} rank{'s' * (count != '1')}",
            linewidth=1.6 - 0.3 * int(count),
            alpha=0.8,
        )
    loss.axhline(WANTED_LOSS, color="#94a3b8", linewidth=0.8)
    loss.set_title("LeNet: loss by samples (curves coincide)", fontsize=9)
    loss.legend(fontsize=7, frameon=False)
    for key, colour in (("compute", "#2563eb"), ("link", "#f59e0b"), ("hidden", "#16a34a")):
        first = 0 if key == "compute" else 1  # one rank exchanges nothing
        time.plot(counts[first:], [row[key] for row in rows][first:], marker="o", label=key, color=colour)
    time.set_ylim(0, 1.05)
    time.set_title("share of the time; of the link's time: hidden", fontsize=9)
    time.legend(fontsize=7, frameon=False)
    for axis in (speed, time):
        axis.set_xticks(counts)
        axis.set_xlabel("ranks", fontsize=8)
    loss.set_xlabel("samples", fontsize=8)
    for axis in figure.axes:
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


OPTIONS = (
    option("--most", default=4),
    option("--picture", type=Path),
)


def main(options: Namespace, record: Record) -> None:
    """Measure, print, write and draw; see the head of the file."""
    found: dict[str, Any] = {"cores": os.cpu_count(), "images/s": {}, "samples to loss": {}}
    for count in range(1, options.most + 1):
        speed, loss = images_per_s(count), samples_to_loss(count)
        found["images/s"][str(count)] = speed
        found["samples to loss"][str(count)] = loss
        print(
            f"{count} ranks: {speed}; loss {WANTED_LOSS} after {loss['samples']:,} samples, "
            f"{loss['seconds']} s",
            flush=True,
        )
        record.results["scaling"] = found
        record.save()  # after each number of ranks: a run that is killed leaves what it has measured
        if options.picture:
            draw(found, options.picture)
