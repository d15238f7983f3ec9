"""Train the MLP of SINGA's documents by its job.conf, and test what it has learnt.

Run it with ``python -m examples.singa.demo`` in the folder above ``examples``.

SINGA's document quotes a log of this net on MNIST: accuracy 0.769900 in the test of step 120. What can be
compared is the form of the log, the order of its lines (a test stands before the update of its step), the
first test of an untrained net (a loss of 2.341021 there, near log 10), and that the accuracy rises to a
plateau (``accuracy.png``). The later numbers cannot: these are other digits and fewer of them, the net has
a tenth of the units, the learning rate is higher, and SINGA's log is one run from first values that nobody
kept.
"""

from __future__ import annotations

import sys
from pathlib import Path

from examples.singa import make_data
from examples.story import netweave, say

HERE = Path(__file__).parent
JOB = HERE / "job.conf"
WEIGHTS = HERE / "workspace" / "checkpoint" / "step601-worker0"
CURVES = HERE / "accuracy.png"


def main() -> int:
    """Return 0 if everything went as told."""
    say("Pack handwritten digits as SINGA stores them.")
    make_data.write(HERE)

    say("Train the MLP as the job.conf says; SINGA is not needed.")
    trained = netweave("train", "-conf", JOB, "--seed", "1", "--plot", CURVES)

    say("Test what it has learnt, from SINGA's checkpoint.")
    tested = netweave("test", JOB, WEIGHTS)
    return 0 if (trained, tested) == (0, 0) else 1


if __name__ == "__main__":
    sys.exit(main())
