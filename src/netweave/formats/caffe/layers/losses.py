"""Losses and metrics: operators of the domain ``netweave`` with the labels as second input."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.files import file_beside
from netweave.formats.caffe.context import CaffeLayer, layer
from netweave.formats.caffe.weights import read_blob
from netweave.graph import DOMAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir


def _add(ctx: CaffeLayer, inputs: Sequence[ir.Value], attributes: dict[str, Any]) -> Sequence[ir.Value]:
    return ctx.add_many(ctx.layer.type, inputs, attributes, domain=DOMAIN, outputs=ctx.tops)


def normalization(ctx: CaffeLayer, default: str) -> dict[str, Any]:
    """Return what a loss is divided by; ``normalize`` is the older form, and ``normalization`` wins."""
    parameter = ctx.spec["loss_param"]
    for name in ("weight_by_label_freqs", "class_weighting"):
        if parameter[name]:
            raise ctx.unsupported(f"{name!r} of the SegNet branch is not supported", parameter.line_of(name))
    if parameter.get("normalization", "") == "PRE_FIXED":
        raise ctx.unsupported(
            "'normalization' PRE_FIXED of the R-FCN branch is not supported",
            parameter.line_of("normalization"),
        )
    if "normalization" in parameter:
        default = parameter["normalization"]
    elif "normalize" in parameter:
        default = "VALID" if parameter["normalize"] else "BATCH_SIZE"
    return {"normalization": default, "ignore_label": parameter.get("ignore_label", None)}


@layer("SoftmaxWithLoss", bottoms=2, tops=(1, 2))
def softmax_with_loss(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Softmax and the logarithmic loss of the labels; the softmax is the second top."""
    axis = ctx.axis(ctx.spec["softmax_param"]["axis"])
    return _add(ctx, ctx.bottoms, {"axis": axis} | normalization(ctx, "VALID"))


@layer("SigmoidCrossEntropyLoss", bottoms=2, tops=(1, 2))
def sigmoid_cross_entropy(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Cross entropy of independent probabilities; the sigmoid is the second top."""
    attributes = normalization(ctx, "BATCH_SIZE")
    loss = ctx.add(ctx.layer.type, ctx.bottoms, attributes, domain=DOMAIN, top=0)
    return [loss] if len(ctx.tops) == 1 else [loss, ctx.add("Sigmoid", [ctx.x], top=1)]


@layer("EuclideanLoss", bottoms=2)
@layer("MultinomialLogisticLoss", bottoms=2)
def plain(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """A loss without settings."""
    return _add(ctx, ctx.bottoms, {})


@layer("HingeLoss", bottoms=2)
def hinge(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """One class against all others."""
    return _add(ctx, ctx.bottoms, {"norm": ctx.spec["hinge_loss_param"]["norm"]})


@layer("ContrastiveLoss", bottoms=3)
def contrastive(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Pairs of rows and whether they are alike."""
    parameter = ctx.spec["contrastive_loss_param"]
    attributes = {"margin": parameter["margin"], "legacy_version": int(parameter["legacy_version"])}
    return _add(ctx, ctx.bottoms, attributes)


@layer("SmoothL1Loss", bottoms=(2, 4))
def smooth_l1(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Squares near 0, absolute values beyond; with weights of the differences and of their losses.

    A layer of the Faster R-CNN branch, which divides by the batch size whatever ``loss_param`` says.
    """
    if len(ctx.bottoms) == 3:
        raise ctx.unsupported("has 3 bottoms, as in the R-FCN branch; only 2 or 4 are read")
    return _add(ctx, ctx.bottoms, {"sigma": ctx.spec["smooth_l1_loss_param"]["sigma"]})


@layer("InfogainLoss", bottoms=(2, 3), tops=(1, 2))
def infogain(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Softmax and a loss that weighs all classes by a matrix: the third bottom, or a file."""
    parameter = ctx.spec["infogain_loss_param"]
    bottoms = list(ctx.bottoms)
    if len(bottoms) == 2:
        path = _beside(ctx, parameter["source"])
        if path is None:
            raise ctx.read_error(
                "the matrix of gains is neither a third bottom nor in a file beside the net: "
                f"there is no {parameter['source']!r}",
                parameter.line_of("source"),
            )
        bottoms.append(ctx.constant(read_blob(path).astype(np.float32)))
    attributes = {"axis": ctx.axis(parameter["axis"])} | normalization(ctx, "VALID")
    return _add(ctx, bottoms, attributes)


def _beside(ctx: CaffeLayer, name: str) -> Path | None:
    folder = Path(ctx.layer.origin.file).parent if ctx.layer.origin else Path()
    return file_beside(folder, name)


@layer("Accuracy", bottoms=2, tops=(1, 2))
def accuracy(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """The share of labels among the ``top_k`` best; by class as second top."""
    parameter = ctx.spec["accuracy_param"]
    attributes = {
        "axis": ctx.axis(parameter["axis"]),
        "top_k": parameter["top_k"],
        "ignore_label": parameter.get("ignore_label", None),
    }
    return _add(ctx, ctx.bottoms, attributes)
