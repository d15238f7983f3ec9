"""Losses and metrics: operators of the domain ``netweave`` with the labels as second input."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.files import file_beside
from netweave.formats.caffe.call import Call, layer
from netweave.formats.caffe.weights import read_blob
from netweave.graph import DOMAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir


def _add(call: Call, inputs: Sequence[ir.Value], attributes: dict[str, Any]) -> Sequence[ir.Value]:
    return call.builder.add_many(call.layer.type, inputs, attributes, domain=DOMAIN, outputs=call.tops)


def normalization(call: Call, default: str) -> dict[str, Any]:
    """Return what a loss is divided by; ``normalize`` is the older form, and ``normalization`` wins."""
    parameter = call.spec["loss_param"]
    for name in ("weight_by_label_freqs", "class_weighting"):
        if parameter[name]:
            raise call.unsupported(f"{name!r} of the SegNet branch is not read", parameter.line_of(name))
    if parameter.get("normalization", "") == "PRE_FIXED":
        raise call.unsupported(
            "'normalization' PRE_FIXED of the R-FCN branch is not read", parameter.line_of("normalization")
        )
    if "normalization" in parameter:
        default = parameter["normalization"]
    elif "normalize" in parameter:
        default = "VALID" if parameter["normalize"] else "BATCH_SIZE"
    return {"normalization": default, "ignore_label": parameter.get("ignore_label", None)}


@layer("SoftmaxWithLoss", bottoms=2, tops=(1, 2))
def softmax_with_loss(call: Call) -> Sequence[ir.Value]:
    """Softmax and the logarithmic loss of the labels; the softmax is the second top."""
    axis = call.axis(call.spec["softmax_param"]["axis"])
    return _add(call, call.bottoms, {"axis": axis} | normalization(call, "VALID"))


@layer("SigmoidCrossEntropyLoss", bottoms=2, tops=(1, 2))
def sigmoid_cross_entropy(call: Call) -> Sequence[ir.Value]:
    """Cross entropy of independent probabilities; the sigmoid is the second top."""
    attributes = normalization(call, "BATCH_SIZE")
    loss = call.builder.add(call.layer.type, call.bottoms, attributes, domain=DOMAIN, outputs=call.tops[0])
    return [loss] if len(call.tops) == 1 else [loss, call.add("Sigmoid", [call.bottoms[0]], top=1)]


@layer("EuclideanLoss", bottoms=2)
@layer("MultinomialLogisticLoss", bottoms=2)
def plain(call: Call) -> Sequence[ir.Value]:
    """A loss without settings."""
    return _add(call, call.bottoms, {})


@layer("HingeLoss", bottoms=2)
def hinge(call: Call) -> Sequence[ir.Value]:
    """One class against all others."""
    return _add(call, call.bottoms, {"norm": call.spec["hinge_loss_param"]["norm"]})


@layer("ContrastiveLoss", bottoms=3)
def contrastive(call: Call) -> Sequence[ir.Value]:
    """Pairs of rows and whether they are alike."""
    parameter = call.spec["contrastive_loss_param"]
    attributes = {"margin": parameter["margin"], "legacy_version": int(parameter["legacy_version"])}
    return _add(call, call.bottoms, attributes)


@layer("SmoothL1Loss", bottoms=(2, 4))
def smooth_l1(call: Call) -> Sequence[ir.Value]:
    """Squares near 0, absolute values beyond; with weights of the differences and of their losses.

    A layer of the Faster R-CNN branch, which divides by the batch size whatever ``loss_param`` says.
    """
    if len(call.bottoms) == 3:
        raise call.unsupported("has 3 bottoms, as in the R-FCN branch; only 2 or 4 are read")
    return _add(call, call.bottoms, {"sigma": call.spec["smooth_l1_loss_param"]["sigma"]})


@layer("InfogainLoss", bottoms=(2, 3), tops=(1, 2))
def infogain(call: Call) -> Sequence[ir.Value]:
    """Softmax and a loss that weighs all classes by a matrix: the third bottom, or a file."""
    parameter = call.spec["infogain_loss_param"]
    bottoms = list(call.bottoms)
    if len(bottoms) == 2:
        path = _beside(call, parameter["source"])
        if path is None:
            raise call.wrong(
                "the matrix of gains is neither a third bottom nor in a file beside the net: "
                f"there is no {parameter['source']!r}",
                parameter.line_of("source"),
            )
        bottoms.append(call.constant(read_blob(path).astype(np.float32)))
    attributes = {"axis": call.axis(parameter["axis"])} | normalization(call, "VALID")
    return _add(call, bottoms, attributes)


def _beside(call: Call, name: str) -> Path | None:
    folder = Path(call.layer.origin.file).parent if call.layer.origin else Path()
    return file_beside(folder, name)


@layer("Accuracy", bottoms=2, tops=(1, 2))
def accuracy(call: Call) -> Sequence[ir.Value]:
    """The share of labels among the ``top_k`` best; by class as second top."""
    parameter = call.spec["accuracy_param"]
    attributes = {
        "axis": call.axis(parameter["axis"]),
        "top_k": parameter["top_k"],
        "ignore_label": parameter.get("ignore_label", None),
    }
    return _add(call, call.bottoms, attributes)
