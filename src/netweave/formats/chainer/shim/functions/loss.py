"""``chainer.functions.loss`` and ``evaluation``: as the losses that other formats have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.errors import CodeError
from netweave.formats.chainer.shim.functions.table import function, node, wrap
from netweave.formats.chainer.shim.recorder import current
from netweave.graph import DOMAIN

if TYPE_CHECKING:
    from netweave.formats.chainer.shim.variable import Variable


@function(
    takes="x, t, normalize=True, cache_score=True, class_weight=None, ignore_label=-1, reduce='mean', "
    "enable_double_backprop=False, soft_target_loss='cross-entropy'"
)
def softmax_cross_entropy(
    x: Any, t: Any, normalize: bool, class_weight: Any, ignore_label: int, reduce: str
) -> Variable:
    """The mean over the labels that are not ignored; the losses themselves with ``reduce='no'``."""
    if class_weight is not None:
        raise CodeError("softmax_cross_entropy with class_weight is not supported")
    if reduce == "no":
        return _each_cross_entropy(x, t, int(ignore_label))
    attributes = {
        "axis": 1,
        "ignore_label": int(ignore_label),
        "normalization": "VALID" if normalize else "BATCH_SIZE",
    }
    outputs = current().add_many("SoftmaxWithLoss", [x, t], attributes, domain=DOMAIN, outputs=2)
    current().judge(outputs[0])
    return wrap(outputs[0])


def _each_cross_entropy(x: Any, t: Any, ignore_label: int) -> Variable:
    """The loss of each label, 0 where it is ignored."""
    record = current()
    labels = record.add("Cast", [t], {"to": int(ir.DataType.INT64)})
    zero, ignored = (np.array(number, np.int64) for number in (0, ignore_label))
    places = record.add("Unsqueeze", [record.add("Max", [labels, zero]), np.array([1], np.int64)])
    picked = record.add("GatherElements", [record.add("LogSoftmax", [x], {"axis": 1}), places], {"axis": 1})
    losses = record.add("Neg", [record.add("Squeeze", [picked, np.array([1], np.int64)])])
    counts = record.add("Not", [record.add("Equal", [labels, ignored])])
    return node("Mul", [losses, record.add("Cast", [counts], {"to": int(ir.DataType.FLOAT)})])


@function()
def accuracy(y: Any, t: Any, ignore_label: int | None = None) -> Variable:
    """The share of labels that are the best guess."""
    attributes = {"axis": 1, "top_k": 1}
    if ignore_label is not None:
        attributes["ignore_label"] = int(ignore_label)
    return node("Accuracy", [y, t], attributes, domain=DOMAIN)


@function()
def mean_absolute_error(x0: Any, x1: Any) -> Variable:
    """The mean of the differences without their signs."""
    record = current()
    difference = record.add("Abs", [record.add("Sub", [x0, x1])])
    return node("ReduceMean", [difference], {"keepdims": 0})


@function()
def mean_squared_error(x0: Any, x1: Any) -> Variable:
    """The mean of the squared differences."""
    record = current()
    difference = record.add("Sub", [x0, x1])
    return node("ReduceMean", [record.add("Mul", [difference, difference])], {"keepdims": 0})
