"""The links of ``chainercv.links`` that are recorded, by name."""

from __future__ import annotations

from typing import Any, TypeVar

from netweave.errors import CodeError
from netweave.formats.chainer.shim.link import Link

CV_LINKS: dict[str, type[Link]] = {}
"""Every link by its name in ``chainercv.links`` or in a module below it."""

T = TypeVar("T", bound=type[Link])


def cv_link(kind: T) -> T:
    """Register a link of ChainerCV; the calls of what it is made of are the layers."""
    CV_LINKS[kind.__name__] = kind
    return kind


def number_of(name: str, given: Any, pretrained_model: Any, default: int | None = None) -> int:
    """Return how many classes a net has.

    Args:
        name: What ChainerCV calls that number.
        given: What the code says; None for that of the named weights.
        pretrained_model: The weights that the code names.
        default: The number without weights.

    Raises:
        CodeError: The code loads a file of weights, or the number is nowhere.
    """
    known = {"imagenet": 1000, "voc0712": 20, "voc07": 20, "camvid": 11}
    if pretrained_model is not None and pretrained_model not in known:
        raise CodeError(
            "loads its weights itself, which is not supported; give the file to Netweave: "
            "model.py,weights.npz"
        )
    number = given if given is not None else known.get(pretrained_model, default)
    if pretrained_model == "imagenet" and name == "n_fg_class":
        number = given
    if number is None:
        raise CodeError(f"constructs a net of ChainerCV without {name}, which is required")
    return int(number)
