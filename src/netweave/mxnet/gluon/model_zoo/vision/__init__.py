"""``gluon.model_zoo.vision``: networks for images, with MXNet's parameters and names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from netweave.errors import UsageError
from netweave.mxnet.gluon.block import HybridBlock
from netweave.mxnet.gluon.model_zoo.vision.nets import (
    VGG,
    AlexNet,
    DenseNet,
    Inception3,
    MobileNet,
    MobileNetV2,
    ResNetV1,
    ResNetV2,
    SqueezeNet,
)

NETWORKS: dict[str, Callable[..., HybridBlock]] = {
    "alexnet": AlexNet,
    "inceptionv3": Inception3,
    "squeezenet1.0": partial(SqueezeNet, "1.0"),
    "squeezenet1.1": partial(SqueezeNet, "1.1"),
}
NETWORKS |= {f"resnet{depth}_v1": partial(ResNetV1, depth) for depth in (18, 34, 50, 101, 152)}
NETWORKS |= {f"resnet{depth}_v2": partial(ResNetV2, depth) for depth in (18, 34, 50, 101, 152)}
NETWORKS |= {f"vgg{depth}": partial(VGG, depth) for depth in (11, 13, 16, 19)}
NETWORKS |= {f"vgg{depth}_bn": partial(VGG, depth, batch_norm=True) for depth in (11, 13, 16, 19)}
NETWORKS |= {f"densenet{depth}": partial(DenseNet, depth) for depth in (121, 161, 169, 201)}
NETWORKS |= {f"mobilenet{width}": partial(MobileNet, width) for width in (1.0, 0.75, 0.5, 0.25)}
NETWORKS |= {f"mobilenetv2_{width}": partial(MobileNetV2, width) for width in (1.0, 0.75, 0.5, 0.25)}
"""The networks by the names of ``get_model``."""

FUNCTIONS = {name.replace(".", "_"): name for name in NETWORKS} | {
    "inception_v3": "inceptionv3",
    **{f"mobilenet_v2_{width}".replace(".", "_"): f"mobilenetv2_{width}" for width in (1.0, 0.75, 0.5, 0.25)},
}
"""The functions that make them, and their names for ``get_model``."""


def get_model(name: str, pretrained: bool = False, ctx: Any = None, root: Any = None, **kwargs: Any) -> Any:
    """Return a network by its name.

    Args:
        name: ``resnet18_v1``, ...
        pretrained: Whether it has values that MXNet downloads, which is not possible here.
        ctx: As MXNet has it.
        root: As MXNet has it.
        kwargs: ``classes``, and what the network has of its own.

    Raises:
        UsageError: There is no such network, or ``pretrained`` is on.
    """
    key = name.lower()
    if key not in NETWORKS:
        raise UsageError(f"there is no network {name!r}; expected one of {', '.join(sorted(NETWORKS))}")
    if pretrained:
        raise UsageError(
            f"{name}: nothing is downloaded here; make it with pretrained=False and call "
            "load_parameters with the .params file that MXNet keeps in ~/.mxnet/models"
        )
    return NETWORKS[key](**kwargs)


def __getattr__(name: str) -> Any:
    if name in FUNCTIONS:
        return partial(get_model, FUNCTIONS[name])
    from netweave.mxnet.base import missing

    raise missing("gluon.model_zoo.vision", name, [*FUNCTIONS, "get_model"])
