"""Train a deep autoencoder as SINGA's RBM example does: machine by machine, then all layers by BP.

Run it with ``python -m examples.singa.autoencoder`` in the folder above ``examples``. It trains the unrolled
net once more from random numbers, for as many steps, and prints the errors of both on the test images.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import netweave
from examples.singa import make_data
from examples.story import say
from netweave.training import Evaluated

HERE = Path(__file__).parent
WORKSPACE = HERE / "workspace"
MACHINES = ("rbm1", "rbm2", "rbm3")


def main() -> int:
    """Return 0 if pretraining has helped."""
    say("Pack handwritten digits as SINGA stores them.")
    make_data.write(HERE)

    say("Train the machines, each on what those below have learnt.")
    for name in MACHINES:
        before, after = tested(HERE / f"{name}.conf")
        print(f"{name}: squared error of the reconstruction {before:.2f} -> {after:.2f}", flush=True)

    say("Unroll the stack into an autoencoder, and fine-tune it.")
    pretrained = tested(HERE / "autoencoder.conf")

    say("Train the same net without the machines' checkpoints.")
    fresh = tested(without_checkpoints(HERE / "autoencoder.conf"))

    say("Squared error of the reconstruction, per test image, before and after fine-tuning.")
    print(f"with pretraining    = {pretrained[0]:.3f} -> {pretrained[1]:.3f}")
    print(f"without pretraining = {fresh[0]:.3f} -> {fresh[1]:.3f}")
    return 0 if pretrained[1] < fresh[1] else 1


def tested(job: Path) -> tuple[float, float]:
    """Train a job, and return the errors of its first test and of its last."""
    errors: list[float] = []

    def watch(event: object) -> None:
        if isinstance(event, Evaluated) and event.phase == "test":
            errors.append(float(next(iter(event.outputs.values()))[0]))

    netweave.train(job, seed=1, watch=watch)
    return errors[0], errors[-1]


def without_checkpoints(job: Path) -> Path:
    """Write a job that begins with random numbers, in a workspace of its own, and return its name."""
    text = re.sub(r"checkpoint_path: .*\n", "", job.read_text(encoding="utf-8"))
    WORKSPACE.mkdir(exist_ok=True)
    fresh = WORKSPACE / f"fresh-{job.name}"
    fresh.write_text(text.replace("workspace/autoencoder", "workspace/fresh"), encoding="utf-8")
    return fresh


if __name__ == "__main__":
    sys.exit(main())
