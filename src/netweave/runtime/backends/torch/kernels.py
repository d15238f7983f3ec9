"""Kernels of matrix products: torch's own, or oneDNN's where a trial found them faster.

For float32 torch calls MKL, whatever the processor. oneDNN is in the same wheel, and on some processors takes
half the time (docs/decisions/0250). The two round differently, so a net computes with torch's own kernels
unless it is told otherwise: comparisons, and runs that promise the same bits elsewhere, stay with them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from threading import Lock
from time import perf_counter
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from netweave.runtime.backends.trials import Choices, Clock, in_turns

ATEN, ONEDNN, PACKED = "aten", "oneDNN", "oneDNN, packed weights"
"""The candidates. ATen is torch's own library; the last one keeps a copy of the weights in oneDNN's order."""

MIN_MULTIPLY_ADDS = 1 << 22
"""Smaller products are torch's: they take less than 0.1 ms, and the calls around them begin to count."""

MARGIN = 1.1
"""A candidate takes the place of torch's own kernel if it is faster by this factor: noise is not a reason."""

TOLERANCE = 1e-4
"""Largest rms error of a candidate relative to the rms of torch's result; rounding stays far below."""

MIN_ROUNDS, MAX_ROUNDS, BUDGET_S = 3, 15, 0.02
"""Rounds of a trial, and the seconds after which no further one begins."""

HOPELESS, HOPELESS_S = 10, 0.1
"""A candidate that takes so many times as long as torch's own kernel, and so many seconds, is not timed."""

MAX_TRIALS = 256
"""Products of further shapes are torch's: sizes that change with every batch would be tried forever."""


class Kernels:
    """Torch's own kernels."""

    def product(self, a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return ``a @ b + bias`` without a gradient.

        Args:
            a: (M, K), or (B, M, K).
            b: (K, N), or (B, K, N).
            bias: (N,), only where there is no B.
        """
        if bias is None:
            return a @ b
        return torch.addmm(bias, a, b)

    def linear(self, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
        """Return a dense layer: x is (..., K), the weights are (N, K), the bias is (N,)."""
        return functional.linear(x, w, b)

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply as ``numpy.matmul``."""
        return torch.matmul(a, b)


PLAIN = Kernels()


class TriedKernels(Kernels):
    """For each shape the kernel that was the fastest in a trial.

    Args:
        recorded: Choices of an earlier part of the run, which must go on with them.
        constants: Addresses of the weights that never change; these may be packed.
        clock: For the trials.

    Attributes:
        choices: All choices that this object has used, by question.
    """

    def __init__(
        self,
        recorded: Mapping[str, str] | None = None,
        *,
        constants: Collection[int] = (),
        clock: Clock = perf_counter,
    ) -> None:
        self.choices: dict[str, str] = dict(recorded or {})
        self._constants, self._clock = frozenset(constants), clock
        self._packed: dict[tuple[Any, ...], Tensor] = {}
        self._remembered = Choices()
        self._lock = Lock()

    def product(self, a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return ``a @ b + bias`` without a gradient, by the fastest kernel for these shapes."""
        if not _is_tried(a, b):
            return super().product(a, b, bias)
        is_constant = b.untyped_storage().data_ptr() in self._constants
        question = _question(a, b, bias, is_constant=is_constant)
        chosen = self.choices.get(question)
        if chosen is None:
            with self._lock:
                chosen = self.choices.get(question) or self._choose(question, a, b, bias, is_constant)
        return self._call(chosen, a, b, bias)

    def linear(self, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
        """Return a dense layer, as ``Kernels.linear`` does."""
        rows = x.reshape(-1, x.shape[-1]) if x.ndim > 2 else x
        fits = b is None or (b.shape == (len(w),) and b.dtype == x.dtype)  # oneDNN would not broadcast it
        if x.ndim < 2 or not fits or not _is_tried(rows, w.t()):
            return super().linear(x, w, b)
        y = self._differentiable(rows, w.t(), b)
        # a view that autograd does not know as one, as torch's own product of these shapes gives
        return torch.ops.aten._unsafe_view(y, [*x.shape[:-1], len(w)]) if x.ndim > 2 else y

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply as ``numpy.matmul``."""
        if b.ndim == 2 and a.ndim >= 2:
            return self.linear(a, b.t())
        if a.ndim < 3 or a.shape[:-2] != b.shape[:-2]:
            return super().matmul(a, b)
        left, right = a.reshape(-1, *a.shape[-2:]), b.reshape(-1, *b.shape[-2:])
        if not _is_tried(left, right):
            return super().matmul(a, b)
        y = self._differentiable(left, right, None)
        made: Tensor = torch.ops.aten._unsafe_view(y, [*a.shape[:-1], b.shape[-1]])
        return made

    def _differentiable(self, a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
        if not torch.is_grad_enabled():
            return self.product(a, b, bias)
        made: Tensor = _Product.apply(a, b, bias, self)
        return made

    def _choose(self, question: str, a: Tensor, b: Tensor, bias: Tensor | None, is_constant: bool) -> str:
        """Return the choice that is remembered, or that of a trial with these very matrices."""
        if len(self.choices) >= MAX_TRIALS:
            return ATEN
        names = [ATEN, ONEDNN, *([PACKED] if is_constant and a.ndim == 2 else [])]
        asked = f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}: {question}"
        chosen = self._remembered.get(asked)
        if chosen not in names:
            chosen = self._try({name: partial(self._call, name, a, b, bias) for name in names})
            self._remembered.keep(asked, chosen)
        if chosen != PACKED:
            self._packed.pop(_identity(b), None)
        self.choices[question] = chosen
        return chosen

    def _try(self, candidates: Mapping[str, Callable[[], Tensor]]) -> str:
        """Return the fastest candidate that computes the same."""
        began = self._clock()
        expected = candidates[ATEN]()
        limit_s = HOPELESS * (self._clock() - began) + HOPELESS_S
        timed = {
            ATEN: partial(self._seconds, candidates[ATEN])
        }  # however slow its next call: it is what remains
        for name, call in candidates.items():
            began = self._clock()
            if name != ATEN and _agrees(call, expected) and self._clock() - began <= limit_s:
                timed[name] = partial(self._seconds, call)
        if len(timed) == 1:
            return ATEN
        times = in_turns(
            timed,
            min_rounds=MIN_ROUNDS,
            max_rounds=MAX_ROUNDS,
            budget_s=BUDGET_S,
            clock=self._clock,
        )
        fastest = min(times, key=lambda name: min(times[name]))
        return fastest if min(times[fastest]) * MARGIN < min(times[ATEN]) else ATEN

    def _seconds(self, call: Callable[[], Tensor]) -> float:
        began = self._clock()
        call()
        return self._clock() - began

    def _call(self, name: str, a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
        if name == ONEDNN and a.ndim == 2:
            return _onednn(a, b.t(), bias)
        if name == ONEDNN:
            return torch.stack([_onednn(left, right.t(), None) for left, right in zip(a, b, strict=True)])
        if name == PACKED:
            return _onednn(a, self._pack(b, len(a)), bias)
        return super().product(a, b, bias)

    def _pack(self, b: Tensor, num_rows: int) -> Tensor:
        """Return constant weights in oneDNN's own order; one copy serves any number of rows."""
        key = _identity(b)
        if key not in self._packed:
            self._packed[key] = torch.ops.mkldnn._reorder_linear_weight(b.t().contiguous(), num_rows)
        return self._packed[key]


def tried_in_inference(module: torch.nn.Module) -> TriedKernels:
    """Return kernels for a net whose weights never change."""
    stored = [*module.parameters(), *module.buffers()]
    return TriedKernels(constants={tensor.untyped_storage().data_ptr() for tensor in stored})


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, bias: Tensor | None, kernels: TriedKernels) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.kernels = kernels
        return kernels.product(a, b, bias)

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        a, b = ctx.saved_tensors
        wants_a, wants_b, wants_bias = ctx.needs_input_grad[:3]
        # where a derivative of this is wanted, torch's own operators have one
        product = torch.matmul if torch.is_grad_enabled() else ctx.kernels.product
        of_a = product(above, b.mT) if wants_a else None
        of_b = None
        if wants_b:  # in the layout of b, as torch's own gradient is
            is_transposed = b.stride(-2) == 1 and b.stride(-1) != 1
            of_b = product(above.mT, a).mT if is_transposed else product(a.mT, above)
        return of_a, of_b, above.sum(0) if wants_bias else None, None


@cache
def _has_onednn() -> bool:
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def _is_tried(a: Tensor, b: Tensor) -> bool:
    """Return whether there is a choice of kernels for a product, and it is worth a trial."""
    return (
        a.dtype == b.dtype == torch.float32
        and a.device.type == b.device.type == "cpu"
        and a.shape[-2] * b.shape[-1] * a.shape[-1] >= MIN_MULTIPLY_ADDS
        and _has_onednn()
        and torch.backends.mkldnn.enabled
        and not torch.is_autocast_enabled("cpu")
        and not torch.are_deterministic_algorithms_enabled()
    )


def _question(a: Tensor, b: Tensor, bias: Tensor | None, *, is_constant: bool) -> str:
    """Return what a trial is about: all that the time of a product depends on besides the processor."""
    batch = f"{len(a)} times " if a.ndim == 3 else ""
    shape = f"{a.shape[-2]}x{a.shape[-1]}{_order(a)} by {b.shape[-2]}x{b.shape[-1]}{_order(b)}"
    rest = f"{' plus bias' if bias is not None else ''}{', constant' if is_constant else ''}"
    return f"{batch}{shape}{rest}, float32, threads: {torch.get_num_threads()}"


def _order(matrix: Tensor) -> str:
    return "" if matrix.stride(-1) == 1 else " transposed" if matrix.stride(-2) == 1 else " strided"


def _identity(b: Tensor) -> tuple[Any, ...]:
    return b.data_ptr(), b.shape, b.stride()


def _onednn(a: Tensor, w: Tensor, bias: Tensor | None) -> Tensor:
    """Return ``a @ w.t() + bias``."""
    if not (w.is_mkldnn or w.is_contiguous() or w.t().is_contiguous()):
        w = w.contiguous()  # with gaps between its rows oneDNN takes a thousand times as long
    made: Tensor = torch.ops.mkldnn._linear_pointwise(a, w, bias, "none", [], "")
    return made


def _agrees(call: Callable[[], Tensor], expected: Tensor) -> bool:
    """Return whether a candidate can be called and gives the same, apart from rounding."""
    try:
        error = (call() - expected).norm()
    except RuntimeError:
        return False
    return not float(error) > TOLERANCE * float(expected.norm())  # nan is nan by any kernel
