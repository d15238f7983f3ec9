"""Arithmetic that the rules of several sources share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from netweave.optim.rule import Block, Tensors

FUSED_RATE = 1e-4
"""From this rate on, 1 - (1 - rate) is the rate to 1e-12, and PyTorch's kernel may be used."""


def heavy_ball(block: Block, gradients: Tensors, h: Tensors, *, momentum: float, sign: float = 1.0) -> None:
    """Do h = momentum h + sign rate (g + decay w); w -= sign h.

    PyTorch's kernel does b = momentum b + (1 - dampening) g; w -= lr b, in one pass over memory, and so the
    same where the rate is put into the dampening.
    """
    if block.rate >= FUSED_RATE:
        torch._fused_sgd_(
            block.weights,
            gradients,
            h,
            weight_decay=block.decay,
            momentum=momentum,
            lr=sign,
            dampening=1.0 - sign * block.rate,
            nesterov=False,
            maximize=False,
            is_first_step=False,
        )
        return
    if block.decay:
        gradients = torch._foreach_add(gradients, block.weights, alpha=block.decay)
    torch._foreach_mul_(h, momentum)
    torch._foreach_add_(h, gradients, alpha=sign * block.rate)
    torch._foreach_sub_(block.weights, h, alpha=sign)


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
