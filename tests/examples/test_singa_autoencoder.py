"""SINGA's stack of RBMs: four jobs that hand checkpoints on, ending in an autoencoder."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.examples import story
from tests.time_limits import IN_CI

pytest.importorskip("sklearn")
pytest.importorskip("torch")


def shorten(folder):
    for job in folder.glob("*.conf"):
        text = re.sub(r"(train_steps: |checkpoint/step)30", r"\g<1>8", job.read_text())
        job.write_text(text.replace("test_freq: 100", "test_freq: 40"))


@pytest.mark.slow
def test_pretraining_makes_the_autoencoder_better(tmp_path):
    """With CI each job takes 80 of its 300 steps, which tells a stack from random numbers as clearly."""
    folder = story.copied(tmp_path)
    if IN_CI:
        shorten(folder / "examples" / "singa" / "autoencoder")
    done = subprocess.run(
        [sys.executable, "-m", "examples.singa.autoencoder"],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(story.ROOT / "src")},
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    arrow = r"([\d.]+) -> ([\d.]+)"
    machines = re.findall(rf"rbm\d: squared error of the reconstruction {arrow}", done.stdout)
    assert len(machines) == 3
    for before, after in machines:
        assert float(after) < (0.95 if IN_CI else 0.8) * float(before)
    errors = {
        name: [float(error) for error in re.search(rf"{name} pretraining +=\s+{arrow}", done.stdout).groups()]
        for name in ("with", "without")
    }
    assert errors["with"][0] < 0.8 * errors["without"][0]
    assert errors["with"][1] < 0.8 * errors["without"][1]
    assert errors["with"][1] < errors["with"][0]
