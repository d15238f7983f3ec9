"""Draw what the jobs of this folder learn: the MLP's accuracy, and the perplexity of the net of characters.

    python -m examples.singa.curves [PICTURE]

The picture in the documentation is ``docs/images/singa-curves.png``. Perplexity is the exponential of the
mean loss of a character: a net that guesses evenly among so many characters has the same.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from shutil import copy
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

import netweave
from examples.singa import make_data
from examples.singa.char_rnn import make_data as characters
from netweave.training import Evaluated, Updated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from netweave.training import Event

HERE = Path(__file__).parent
PICTURE = HERE.parents[1] / "docs" / "images" / "singa-curves.png"

RUN = 25
"""Characters of a batch in each stream: the loss of a step is the sum over them."""

BOUND = 9.0
"""The perplexity below which 600 steps end (``tests/examples/test_char_rnn.py``)."""


def accuracies(folder: Path) -> list[tuple[int, float]]:
    """Return the accuracy of the MLP on the test digits, by step."""
    make_data.write(folder)
    found: list[tuple[int, float]] = []

    def watch(event: Event) -> None:
        if isinstance(event, Evaluated):
            (accuracy,) = (value[0] for name, value in event.outputs.items() if name.endswith("accuracy"))
            found.append((event.iteration, accuracy))

    copy(HERE / "job.conf", folder)
    netweave.train(netweave.load_job(folder / "job.conf"), seed=1, watch=watch)
    return found


def perplexities(folder: Path) -> list[tuple[int, float]]:
    """Return the perplexity of each step of the net of characters."""
    characters.write(folder)
    copy(characters.HERE / "job.conf", folder)
    found: list[tuple[int, float]] = []

    def watch(event: Event) -> None:
        if isinstance(event, Updated):
            found.append((event.iteration, math.exp(event.loss / RUN)))

    netweave.train(netweave.load_job(folder / "job.conf"), seed=1, watch=watch)
    return found


def draw(picture: Path, accuracy: list[tuple[int, float]], perplexity: list[tuple[int, float]]) -> None:
    """Draw both curves."""
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    left.plot(*zip(*accuracy, strict=True), marker="o", markersize=3)
    left.set(title="MLP on scikit-learn's digits", xlabel="step", ylabel="test accuracy", ylim=(0, 1))
    steps, values = zip(*perplexity, strict=True)
    right.plot(steps, values, linewidth=0.5, alpha=0.5)
    window = 25
    means = np.exp(np.convolve(np.log(values), np.ones(window) / window, "valid"))
    right.plot(steps[window - 1 :], means, color="C0", label=f"mean of {window} steps")
    right.axhline(BOUND, color="gray", linestyle=":", label=f"bound: {BOUND:g} after 600 steps")
    right.set(title="GRU on the how-to guides", xlabel="step", ylabel="perplexity", yscale="log")
    right.set_yticks([5, 10, 20, 50], labels=["5", "10", "20", "50"])
    right.yaxis.set_minor_formatter(NullFormatter())
    right.legend()
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(picture, dpi=100)
    print(f"accuracy {accuracy[0][1]:.3f} at step 0, {accuracy[-1][1]:.3f} at step {accuracy[-1][0]}")
    last = np.exp(np.mean(np.log(values[-50:])))
    print(f"perplexity {values[0]:.1f} at step 0, {last:.2f} in the last 50 of {len(values)} steps")


@contextmanager
def working_in(folder: Path) -> Iterator[Path]:
    """Make a new folder the working one: names in a job.conf are relative to it."""
    before = Path.cwd()
    folder.mkdir()
    os.chdir(folder)
    try:
        yield folder
    finally:
        os.chdir(before)


def main(picture: Path = PICTURE) -> None:
    """Train both jobs in a folder of their own, and draw."""
    picture = picture.absolute()
    with tempfile.TemporaryDirectory() as name:
        with working_in(Path(name) / "mlp") as folder:
            accuracy = accuracies(folder)
        with working_in(Path(name) / "characters") as folder:
            perplexity = perplexities(folder)
    draw(picture, accuracy, perplexity)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
