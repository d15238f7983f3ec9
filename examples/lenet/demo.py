"""Train LeNet by a solver of Caffe's, write what it learnt as ONNX, and prove that it is the same net.

Run it with ``make demo``, or with ``python -m examples.lenet.demo`` in the folder above ``examples``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from examples.story import netweave, python, say

HERE = Path(__file__).parent
SOLVER = HERE / "solver.prototxt"
DEPLOY = HERE / "deploy.prototxt"
WEIGHTS = HERE / "snapshots" / "lenet_iter_600.caffemodel"
CONVERTED = HERE / "lenet.onnx"


def main() -> int:
    """Return 0 if everything went as told."""
    say("Pack handwritten digits as Caffe stores them.")
    python(HERE / "make_data.py")

    say("Train LeNet as the solver says; Caffe is not needed.")
    trained = netweave("train", SOLVER)

    say("Write the net for use, with what was learnt, as ONNX.")
    learnt = f"{os.path.relpath(DEPLOY)},{os.path.relpath(WEIGHTS)}"
    converted = netweave("convert", learnt, CONVERTED)

    say("Is that the same net?")
    equal = netweave("compare", learnt, CONVERTED)
    return 0 if (trained, converted, equal) == (0, 0, 0) else 1


if __name__ == "__main__":
    sys.exit(main())
