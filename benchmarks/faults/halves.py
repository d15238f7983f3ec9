"""Which nets may be looked at while the comparison is improved, and which are run once, at the end."""

from __future__ import annotations

import random

SEED = 20261121

POOLS = {
    "caffe": (
        ["alexnet", "caffenet", "cifar10_sigmoid", "flickr_style", "nonlinear", "rcnn_ilsvrc13", "resnet_50",
         "vgg_16"], 4,
    ),
    "mxnet": (["mobilenet_v2", "resnet_v1_bottleneck", "resnet_v2_bottleneck", "vgg11", "vgg11_bn"], 3),
    "onnx": (["light_densenet121", "light_inception_v1", "light_shufflenet", "light_squeezenet"], 2),
}  # fmt: skip
"""Nets that the benchmark had never met when they were drawn, and how many are; Caffe's from the corpus,
MXNet's from the model zoo's own code, ONNX's from the tests that come with its package."""

NUM_PORTS = 4
"""Of the Caffe and MXNet nets drawn, so many are ported to PyTorch."""

LAST = {
    "darknet": ("tiny", "partial"),
    "pytorch": ("heads",),
}
"""Nets that were written when the others of their formats had been looked at, and run after that."""


def _draw() -> dict[str, list[str]]:
    generator = random.Random(SEED)
    drawn = {form: generator.sample(sorted(pool), count) for form, (pool, count) in POOLS.items()}
    drawn["pytorch"] = generator.sample([*drawn["caffe"], *drawn["mxnet"]], NUM_PORTS)
    return drawn


UNSEEN = _draw()
"""The nets that were drawn, by format."""


def half_of(subject: str) -> str:
    """Return the half of a net by its name (``caffe-lenet``)."""
    form, _, name = subject.partition("-")
    return "unseen" if name in (*UNSEEN.get(form, ()), *LAST.get(form, ())) else "seen"
