"""Matrix products."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from netweave.runtime.backends.torch.table import lower_to, lowering

lower_to(torch.det, "Det", since=11, num_inputs=1)


@lowering("MatMul", since=1)
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Multiply as ``numpy.matmul``."""
    return torch.matmul(a, b)


@lowering("Gemm", since=9)
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """Return ``alpha * a @ b + beta * c``; the usual dense layer is one call of torch's."""
    a = a.t() if transA else a
    if alpha == beta == 1.0 and (c is None or c.ndim == 1) and a.is_floating_point():
        return functional.linear(a, b if transB else b.t(), c)
    y = torch.matmul(a, b.t() if transB else b)
    y = y if alpha == 1.0 else (alpha * y).to(y.dtype)
    if c is None:
        return y
    return y + (c if beta == 1.0 else (beta * c).to(c.dtype))


@lowering("Einsum", since=12)
def einsum(*data: Tensor, equation: str) -> Tensor:
    """Sum products over indices in Einstein's notation, which torch reads without blanks and in any case."""
    return torch.einsum(equation.replace(" ", ""), *data)
