"""The demo and the how-to of detectors on a few images: drawn, trained and tested."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("pycocotools")

from examples.yolo import make_data
from netweave.cli import main
from tests.examples import story
from tests.training import yolo_nets

PAGE = story.ROOT / "docs" / "how-to" / "train-a-yolo-detector.md"


@pytest.mark.slow
def test_demo_trains_and_tests(tmp_path):
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
        "$ netweave test examples/yolo/quick.cfg",
        "mAP@0.5 = ",
    ]
    story.assert_in_order(done.stdout, parts)


def newest(folder, pattern):
    return max(folder.glob(pattern), key=lambda file: file.stat().st_mtime_ns)


def prepared(folder):
    """Write what the how-to's commands work on: images, a net, and the weights of its first layer.

    Darknet's names of files stay, but for the number of updates, which are two here.
    """
    make_data.write(folder, num_train=16, num_test=4)
    (folder / "yolo.cfg").write_text(yolo_nets.text(batch=4, subdivisions=1, updates=2))
    main_of("train", "yolo.cfg", "--data", "shapes.data", "--seed", "1")
    whole = newest(folder, "backup/yolo_*.weights").read_bytes()
    (folder / "darknet53.conv.74").write_bytes(whole[: 20 + 4 * (4 * 6 + 6 * 3 * 9)])
    shutil.rmtree(folder / "backup")


def main_of(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert not ended.value.code, arguments


@pytest.mark.slow
def test_the_commands_of_the_how_to_run(tmp_path, monkeypatch, capsys):
    """All indented commands of the page, in its order and folder, each after the ones before it."""
    commands = re.findall(r"^    netweave (.+)$", PAGE.read_text(), re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["train", "test"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(secrets, "randbits", lambda bits: 5)  # by some first values the net diverges at once
    prepared(tmp_path)
    printed = []
    for command in commands:
        words = [re.sub(r"_\d+\.weights$", "_2.weights", word) for word in shlex.split(command)]
        capsys.readouterr()
        main_of(*words)
        printed.append(capsys.readouterr().out)
    trained, tested = printed
    story.assert_in_order(trained, ["Region", "2: ", "mAP@0.5 = "])
    story.assert_in_order(tested, ["mAP@0.5 = ", "mAP@[.5:.95] = "])
    assert newest(tmp_path, "backup/yolo_*.weights").name == "yolo_2.weights"
