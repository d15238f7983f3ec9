"""The MLP of SINGA's documents: packed, trained and tested from its job.conf."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("torch")

from tests.examples import story


@pytest.mark.slow
def test_demo_packs_trains_and_tests(tmp_path):
    folder = story.copied(tmp_path)
    done = story.told(folder, "singa")
    assert done.returncode == 0, done.stderr
    parts = [
        "train_data.bin: 1,437 images",
        "$ netweave train -conf examples/singa/job.conf --seed 1",
        "Test step-0, loss : 2.3",
        "Train step-0, loss : ",
        "Test step-120, loss : ",
        "step601-worker0",
        "(exit status 0)",
        "$ netweave test examples/singa/job.conf examples/singa/workspace/checkpoint/step601-worker0",
        "accuracy = 0.9",
        "(exit status 0)",
    ]
    story.assert_in_order(done.stdout, parts)
    accuracies = [float(text) for text in re.findall(r"Test step-\d+, .*accuracy : (\S+)", done.stdout)]
    assert len(accuracies) == 11
    assert accuracies[0] < 0.3
    assert min(accuracies[2:]) > 0.9
    assert (folder / "examples" / "singa" / "accuracy.png").stat().st_size > 10_000
