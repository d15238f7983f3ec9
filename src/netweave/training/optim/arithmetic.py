"""Arithmetic that the rules of several sources share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from netweave.training.optim.rule import Block, Tensors

FUSED_RATES = {torch.float32: 1e-8, torch.float64: 1e-4}
"""From this rate on PyTorch's kernel may be used, by type of the numbers. In double precision,
1 - (1 - rate) is then the rate to 1e-8, a sixth of what float32 tells apart, and to 1e-12."""


def heavy_ball(
    block: Block,
    gradients: Tensors,
    h: Tensors,
    *,
    momentum: float,
    sign: float = 1.0,
    scale: float = 1.0,
) -> None:
    """Do h = momentum h + sign rate (scale g + decay w); w -= sign h.

    PyTorch's kernel does b = momentum b + (1 - dampening) (g + weight_decay w); w -= lr b, in one pass over
    memory, and so the same where rate and scale are put into the dampening.
    """
    rate = block.rate * scale
    if rate >= max(map(_fused_rate, h), default=math.inf):
        torch._fused_sgd_(
            block.weights,
            gradients,
            h,
            weight_decay=block.decay / scale,
            momentum=momentum,
            lr=sign,
            dampening=1.0 - sign * rate,
            nesterov=False,
            maximize=False,
            is_first_step=False,
        )
        return
    if scale != 1.0:
        gradients = torch._foreach_mul(gradients, scale)
    if block.decay:
        gradients = torch._foreach_add(gradients, block.weights, alpha=block.decay)
    torch._foreach_mul_(h, momentum)
    torch._foreach_add_(h, gradients, alpha=sign * block.rate)
    torch._foreach_sub_(block.weights, h, alpha=sign)


def descend(block: Block, gradients: Tensors, *, scale: float) -> None:
    """Do w -= rate (scale g + decay w), by PyTorch's kernel, with the scale in its rate.

    Args:
        block: What is updated.
        gradients: Of its elements.
        scale: Factor on the gradients, not 0.
    """
    torch._fused_sgd_(
        block.weights,
        gradients,
        [],
        weight_decay=block.decay / scale,
        momentum=0.0,
        lr=block.rate * scale,
        dampening=0.0,
        nesterov=False,
        maximize=False,
        is_first_step=False,
    )


def _fused_rate(tensor: Tensor) -> float:
    return FUSED_RATES.get(tensor.dtype, math.inf)


def complement(keep: float, tensors: Tensors) -> float:
    """Return 1 - keep, computed in the type of the tensors, as kernels of the sources do.

    In float32, 1 - 0.999 is 1.3e-5 smaller than a thousandth, which shows in the weights.
    """
    if not tensors:
        return 1.0 - keep
    return float(1.0 - torch.tensor(keep, dtype=tensors[0].dtype))


def average(kept: Tensors, new: Tensors, *, keep: float, add: float | None = None) -> None:
    """Do kept = keep kept + add new, where add is 1 - keep if not given."""
    torch._foreach_mul_(kept, keep)
    torch._foreach_add_(kept, new, alpha=1.0 - keep if add is None else add)


def average_square(kept: Tensors, new: Tensors, *, keep: float, add: float | None = None) -> None:
    """Do kept = keep kept + add new^2, where add is 1 - keep if not given."""
    torch._foreach_mul_(kept, keep)
    torch._foreach_addcmul_(kept, new, new, value=1.0 - keep if add is None else add)


def divide_by_root(weights: Tensors, above: Tensors, below: Tensors, *, rate: float, delta: float) -> None:
    """Do w -= rate above / (sqrt(below) + delta)."""
    root = torch._foreach_sqrt(below)
    torch._foreach_add_(root, delta)
    torch._foreach_addcdiv_(weights, above, root, value=-rate)


def adam_correction(beta1: float, beta2: float, step: int) -> float:
    """Return what makes up for the zeros that Adam's two averages start from."""
    return math.sqrt(1.0 - beta2**step) / (1.0 - beta1**step)


def adam(
    block: Block,
    gradients: Tensors,
    m: Tensors,
    v: Tensors,
    *,
    betas: tuple[float, float],
    delta: float,
    decay: float,
) -> float:
    """Do m, v = averages of g + decay w and its square; w -= rate m / (sqrt(v) + delta); return the rate.

    The rate is the block's, corrected. PyTorch's kernel does w -= lr / c1 m / (sqrt(v / c2) + eps), which is
    the same where lr and eps make up for its corrections c1 and c2.
    """
    rate = block.rate * adam_correction(*betas, block.step)
    beta1, beta2 = (1.0 - complement(beta, gradients) for beta in betas)
    root = math.sqrt(1.0 - beta2**block.step)
    step = torch.tensor(float(block.step), device=m[0].device)
    torch._fused_adam_(
        block.weights,
        gradients,
        m,
        v,
        [],
        [step] * len(m),
        lr=rate * (1.0 - beta1**block.step) / root,
        beta1=beta1,
        beta2=beta2,
        weight_decay=decay,
        eps=delta / root,
        amsgrad=False,
        maximize=False,
    )
    return rate
