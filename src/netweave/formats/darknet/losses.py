"""Losses of the heads of detectors in a net that is trained (parse_yolo, parse_region)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netweave.formats.darknet.config import Section
    from netweave.formats.darknet.context import DarknetLayer, Training

_PLAIN = {
    "yolo": {
        "scale_x_y": 1.0,
        "new_coords": 0.0,
        "iou_thresh": 1.0,
        "label_smooth_eps": 0.0,
        "objectness_smooth": 0.0,
        "focal_loss": 0.0,
        "iou_normalizer": 1.0,
        "obj_normalizer": 1.0,
        "cls_normalizer": 1.0,
        "delta_normalizer": 1.0,
    },
    "region": {"classfix": 0.0, "focal_loss": 0.0},
}
"""Settings of AlexeyAB's losses that are not written: the numbers with which they do nothing."""

_BRANCH = ("counters_per_class", "max_delta", "map", "embedding_layer")
"""Settings that do something wherever they are written."""


def add_yolo_loss(ctx: DarknetLayer, training: Training) -> None:
    """Add the loss of a YOLO layer (v3).

    Raises:
        ReadError: It has no anchors, or not as many as its ``num`` and ``mask`` say.
        UnsupportedError: Its loss is that of AlexeyAB's branch.
    """
    section = ctx.section
    _refuse_branch(ctx)
    if section.string("iou_loss", "mse") != "mse":
        raise ctx.unsupported(
            f"iou_loss={section.string('iou_loss', 'mse')} is a loss of AlexeyAB's branch, which is not "
            "supported in training; without it, the loss is YOLO v3's"
        )
    anchors = _anchors(section)
    mask = section.integers("mask") or tuple(range(len(anchors) // 2))
    if not 0 <= min(mask) <= max(mask) < len(anchors) // 2:
        raise section.read_error("mask", f"numbers of its {len(anchors) // 2} anchors, from 0")
    height, width = (training.net.integer(name, 0, least=1) for name in ("height", "width"))
    attributes = {
        "anchors": list(anchors),
        "mask": list(mask),
        "classes": section.integer("classes", 20, least=1),
        "width": width,
        "height": height,
        "ignore_thresh": section.number("ignore_thresh", 0.5),
        "truth_thresh": section.number("truth_thresh", 1.0),
    }
    _add(ctx, training, "YoloLoss", attributes)


def add_region_loss(ctx: DarknetLayer, training: Training) -> None:
    """Add the loss of a region layer (v2).

    Raises:
        ReadError: It has no anchors, or not as many as its ``num`` says.
        UnsupportedError: Its loss is that of AlexeyAB's branch.
    """
    section = ctx.section
    _refuse_branch(ctx)
    scales = ("coord_scale", "object_scale", "noobject_scale", "class_scale")
    attributes = {
        "anchors": list(_anchors(section)),
        "classes": section.integer("classes", 20, least=1),
        **{name: int(section.flag(name)) for name in ("softmax", "bias_match", "rescore")},
        "thresh": section.number("thresh", 0.5),
        **{name: section.number(name, 1.0) for name in scales},
        "update_images": images_per_update(training.net),
        "pass_images": images_per_pass(training.net),
    }
    _add(ctx, training, "RegionLoss", attributes)


def images_per_pass(net: Section) -> int:
    """Return how many images go through the net at once: ``batch`` over ``subdivisions``.

    Raises:
        ReadError: No image is left for a pass.
    """
    images = net.integer("batch", 1, least=1) // net.integer("subdivisions", 1, least=1)
    if images < 1:
        raise net.read_error("subdivisions", f"at most the {net.integer('batch', 1)} images of the batch")
    return images


def images_per_update(net: Section) -> int:
    """Return how many images an update is made of."""
    return images_per_pass(net) * net.integer("subdivisions", 1, least=1)


def refuse_loss(ctx: DarknetLayer) -> None:
    """Refuse to train a layer whose loss is not written.

    Raises:
        UnsupportedError: The net is read to be trained.
    """
    if ctx.training is not None:
        raise ctx.unsupported(
            f"the loss of [{ctx.section.type}] is not supported; nets with [yolo] and [region] can be trained"
        )


def _anchors(section: Section) -> tuple[float, ...]:
    anchors, num = section.numbers("anchors"), section.integer("num", 1, least=1)
    if len(anchors) != 2 * num or min(anchors) <= 0:
        raise section.read_error(
            "anchors", f"{2 * num} numbers above 0, two for each of num={num} (netweave anchors finds them)"
        )
    return anchors


def _refuse_branch(ctx: DarknetLayer) -> None:
    section = ctx.section
    plain = _PLAIN[section.type]
    given = [name for name, number in plain.items() if section.number(name, number) != number]
    given += [name for name in _BRANCH if section.has(name)]
    if given:
        settings = ", ".join(f"{name}={section.settings[name]}" for name in given)
        raise ctx.unsupported(f"{settings}: not supported in training; without it, the layer is")


def _add(ctx: DarknetLayer, training: Training, op_type: str, attributes: Mapping[str, Any]) -> None:
    names = [f"{ctx.layer.key}/loss", f"{ctx.layer.key}/statistics"]
    loss, statistics = ctx.builder.add_many(
        op_type, [ctx.x, training.truth], attributes, outputs=names, domain="netweave"
    )
    training.losses.append(loss)
    training.statistics.append(statistics)
