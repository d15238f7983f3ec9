"""Find anchors for shapes, train a small YOLO on them, and test it.

Run it with ``python -m examples.yolo.demo`` in the folder above ``examples``; it takes some minutes. With
``--quick`` it makes a few updates only, to show the way.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from examples.story import netweave, say
from examples.yolo import make_data

HERE = Path(__file__).parent
NET, DATA = HERE / "yolo.cfg", HERE / "shapes" / "shapes.data"

QUICK = {"burn_in": "2", "max_batches": "4", "steps": "3,4"}


def with_solver(net: Path, target: Path, settings: dict[str, str]) -> Path:
    """Write a net with other settings of its solver."""
    text = net.read_text()
    for name, value in settings.items():
        text = re.sub(rf"^{name}=.*$", f"{name}={value}", text, count=1, flags=re.MULTILINE)
    target.write_text(text)
    return target


def main(*, quick: bool = False) -> int:
    """Return 0 if everything went as told."""
    say("Draw images with boxes, balls and tents, and label them as Darknet does.")
    if quick:
        make_data.write(DATA.parent, num_train=32, num_test=8)
    else:
        make_data.write(DATA.parent)

    say("Find anchors for them: three sizes that most boxes overlap.")
    statuses = [netweave("anchors", DATA, "--count", "3", "--net", NET)]

    say("Train, as the .cfg says.")
    net = with_solver(NET, HERE / "quick.cfg", QUICK) if quick else NET
    statuses.append(netweave("train", net, "--data", DATA, "--seed", "1"))

    say("Test the newest weights: the mean average precision over the images that were left out.")
    weights = max(
        (DATA.parent / "backup").glob(f"{net.stem}_*.weights"), key=lambda file: file.stat().st_mtime
    )
    statuses.append(netweave("test", net, weights, "--data", DATA))
    return max(statuses)


if __name__ == "__main__":
    sys.exit(main(quick="--quick" in sys.argv[1:]))
