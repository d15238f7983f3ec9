"""SINGA's stack of RBMs: four jobs that hand checkpoints on, ending in an autoencoder."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.examples import story

pytest.importorskip("sklearn")
pytest.importorskip("torch")


@pytest.mark.slow
def test_pretraining_makes_the_autoencoder_better(tmp_path):
    folder = story.copied(tmp_path)
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
        assert float(after) < 0.8 * float(before)
    errors = {
        name: [float(error) for error in re.search(rf"{name} pretraining +=\s+{arrow}", done.stdout).groups()]
        for name in ("with", "without")
    }
    assert errors["with"][0] < 0.8 * errors["without"][0]
    assert errors["with"][1] < 0.8 * errors["without"][1]
    assert errors["with"][1] < errors["with"][0]
