"""The detector's demo on a few images: drawn, trained, pruned and trained again."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("pycocotools")

from tests.examples import story


@pytest.mark.slow
def test_demo_trains_prunes_and_trains_again(tmp_path):
    folder = story.copied(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "examples.yolo.demo", "--quick"],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(story.ROOT / "src")},
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    parts = [
        "shapes: 32 images to train on, 8 to test",
        "$ netweave anchors examples/yolo/shapes/shapes.data --count 3 --net examples/yolo/yolo.cfg",
        "anchors = ",
        "mean IoU 0.",
        "Region 15 Avg IOU: ",
        "4: ",
        "mAP@0.5 = ",
        "$ netweave prune examples/yolo/pruned_none.cfg",
        "multiply-adds",
        "wrote examples/yolo/pruned.cfg and examples/yolo/pruned.weights",
        "--weights examples/yolo/pruned.weights",
        "mAP@0.5 = ",
    ]
    story.assert_in_order(done.stdout, parts)
