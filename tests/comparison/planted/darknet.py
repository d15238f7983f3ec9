"""The net in Darknet's text, with its weights; epsilon and slope are fixed there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import netweave
from tests.comparison.planted.plan import CLASSES, IN, MIDDLE, POOL, SIZE, Plan, arrays

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.graph import Graph

STORED = (
    "bn1.beta", "bn1.gamma", "bn1.mean", "bn1.variance", "conv1.weight",
    "conv2.bias", "conv2.weight", "fc.bias", "fc.weight",
)  # fmt: skip
"""The order of the arrays in the file."""


def load(plan: Plan, folder: Path, *, weights: bool) -> Graph:
    """Write the net and read it."""
    (folder / "net.cfg").write_text(text(plan))
    if weights:
        found = arrays(plan)
        header = np.array([0, 2, 5, 0, 0], "<i4").tobytes()
        (folder / "net.weights").write_bytes(header + b"".join(found[key].tobytes() for key in STORED))
    return netweave.load(folder / "net.cfg")


def text(plan: Plan) -> str:
    """Return the definition."""
    if (plan.eps, plan.slope, plan.scale, plan.lrn, plan.fixed_gamma) != (1e-5, 0.1, 1.0, None, False):
        raise ValueError("Darknet has no setting for this")
    conv = f"[convolutional]\nfilters={MIDDLE}\nsize=3\nstride=1\n"
    pool = {"max": "maxpool", "average": "local_avgpool"}[plan.pooling]
    end = {"softmax": "[softmax]\n", "sigmoid": "[activation]\nactivation=logistic\n"}[plan.end]
    return (
        f"[net]\nheight={SIZE}\nwidth={SIZE}\nchannels={IN}\n"
        f"{conv}padding=1\nbatch_normalize=1\nactivation=leaky\n"
        f"{conv}padding={plan.pad}\nactivation={plan.activation}\n"
        f"[{pool}]\nsize={POOL}\nstride=1\npadding=0\n"
        f"[avgpool]\n[connected]\noutput={CLASSES}\nactivation=linear\n{end}"
    )
