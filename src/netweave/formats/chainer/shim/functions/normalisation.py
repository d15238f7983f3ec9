"""``chainer.functions.normalization``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.errors import CodeError
from netweave.formats.chainer.shim.functions.table import function, integers, node
from netweave.formats.chainer.shim.recorder import current

if TYPE_CHECKING:
    from netweave.formats.chainer.shim.variable import Variable


@function()
def fixed_batch_normalization(
    x: Any, gamma: Any, beta: Any, mean: Any, var: Any, eps: float = 2e-5, axis: Any = None
) -> Variable:
    """By stored statistics; Chainer's epsilon is 2e-5."""
    record, kept = current(), kept_axes(x.ndim, axis)
    if kept == [1]:
        attributes = {"epsilon": float(eps), "momentum": 0.9}
        return node("BatchNormalization", [x, gamma, beta, mean, var], attributes)
    shape = integers([int(x.shape[a]) if a in kept else 1 for a in range(x.ndim)])
    gamma, beta, mean, var = (record.add("Reshape", [array, shape]) for array in (gamma, beta, mean, var))
    root = record.add("Sqrt", [record.add("Add", [var, record.constant(float(eps))])])
    centred = record.add("Sub", [x, mean])
    scaled = record.add("Mul", [centred, record.add("Div", [gamma, root])])
    return node("Add", [scaled, beta])


def kept_axes(rank: int, axis: Any) -> list[int]:
    """Return the axes whose every element has numbers of its own: those that are not normalised over."""
    over = [0, *range(2, rank)] if axis is None else [axis] if isinstance(axis, int) else list(axis)
    return [each for each in range(rank) if each not in over]


@function(takes="x, gamma, beta, *, eps=2e-5, running_mean=None, running_var=None, decay=0.9, axis=None")
def batch_normalization() -> Variable:
    """By the batch's own statistics: only training knows it."""
    raise CodeError("normalises by the statistics of the batch; for inference, use fixed_batch_normalization")


@function()
def local_response_normalization(
    x: Any, n: int = 5, k: float = 2, alpha: float = 1e-4, beta: float = 0.75
) -> Variable:
    """Across channels; alpha is not divided by the size, as it is in ONNX."""
    size = 2 * (int(n) // 2) + 1
    attributes = {"size": size, "alpha": float(alpha) * size, "beta": float(beta), "bias": float(k)}
    return node("LRN", [x], attributes)


@function()
def normalize(x: Any, eps: float = 1e-5, axis: Any = 1) -> Variable:
    """To length 1 along an axis, epsilon added to the length."""
    record = current()
    axes = integers([axis] if isinstance(axis, int) else list(axis))
    length = record.add("ReduceL2", [x, axes], {"keepdims": 1})
    return node("Div", [x, record.add("Add", [length, record.constant(eps)])])


@function()
def layer_normalization(x: Any, gamma: Any, beta: Any, eps: float = 1e-5) -> Variable:
    """By the statistics of each row."""
    attributes = {"axis": 1, "epsilon": float(eps)}
    return node("LayerNormalization", [x, gamma, beta], attributes)


@function()
def group_normalization(x: Any, groups: int, gamma: Any, beta: Any, eps: float = 1e-5) -> Variable:
    """By the statistics of each group of channels."""
    attributes = {"num_groups": int(groups), "epsilon": float(eps)}
    return node("GroupNormalization", [x, gamma, beta], attributes)
