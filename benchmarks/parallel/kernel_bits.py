"""Kernels of torch whose bits depend on instruction sets and threads.

``python -m benchmarks parallel.kernel_bits --json benchmarks/parallel/kernel_bits.json`` computes each
kernel in float32, forward and backward, in one process for each setting, and prints where the bits equal
those of the default with one thread: ``=`` for all, ``forward only`` where gradients differ, ``no``.
``again`` is the default a second time. A limit above what the processor has changes nothing, so a column
says something only about processors with more instructions than its limit; the record names the processor.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  # as PyTorch's documentation has it

if TYPE_CHECKING:
    from benchmarks.record import Namespace, Record

OPTIONS = ()

Kernel = Callable[..., Tensor]

ALL_AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}

SETTINGS = {
    "again": {},
    "2 threads": {"OMP_NUM_THREADS": "2"},
    "oneDNN AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2"},
    "oneDNN AVX512_CORE": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},
    "oneDNN AVX512_CORE_BF16": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"},
    "ATen default": {"ATEN_CPU_CAPABILITY": "default"},
    "ATen avx2": {"ATEN_CPU_CAPABILITY": "avx2"},
    "MKL AVX2": {"MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "all AVX2": ALL_AVX2,
    "all AVX2, 2 threads": {**ALL_AVX2, "OMP_NUM_THREADS": "2"},
}
"""Environment variables of each process, besides one thread."""

EQUAL, FORWARD, DIFFERENT = "=", "forward only", "no"


def convolution(**settings: int) -> Kernel:
    """Return a convolution with settings."""
    return lambda x, w, b: F.conv2d(x, w, b, **settings)


def norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """Normalise by the statistics of the batch."""
    return F.batch_norm(x, None, None, w, b, training=True)


KERNELS: dict[str, tuple[Kernel, list[tuple[int, ...]]]] = {
    "Linear, 8 x 64 to 10": (F.linear, [(8, 64), (10, 64), (10,)]),
    "Linear, 64 x 1024 to 1000": (F.linear, [(64, 1024), (1000, 1024), (1000,)]),
    "Conv2d 1x1, 64 to 64, 28 x 28": (convolution(), [(4, 64, 28, 28), (64, 64, 1, 1), (64,)]),
    "Conv2d 3x3, 3 to 8, 12 x 12": (convolution(padding=1), [(4, 3, 12, 12), (8, 3, 3, 3), (8,)]),
    "Conv2d 3x3, 64 to 64, 28 x 28": (convolution(padding=1), [(4, 64, 28, 28), (64, 64, 3, 3), (64,)]),
    "Conv2d 3x3, 32 groups": (convolution(padding=1, groups=32), [(4, 64, 28, 28), (64, 2, 3, 3), (64,)]),
    "Conv2d 3x3, depthwise": (convolution(padding=1, groups=64), [(4, 64, 28, 28), (64, 1, 3, 3), (64,)]),
    "Conv2d 7x7, stride 2": (convolution(padding=3, stride=2), [(4, 3, 112, 112), (64, 3, 7, 7), (64,)]),
    "batch norm, 4 x 8 x 6 x 6": (norm, [(4, 8, 6, 6), (8,), (8,)]),
    "batch norm, 8 x 64 x 28 x 28": (norm, [(8, 64, 28, 28), (64,), (64,)]),
    "LayerNorm, 8 x 32": (lambda x, w, b: F.layer_norm(x, (32,), w, b), [(8, 32), (32,), (32,)]),
    "LayerNorm, 512 x 768": (lambda x, w, b: F.layer_norm(x, (768,), w, b), [(512, 768), (768,), (768,)]),
    "softmax, 8 x 10": (lambda x: x.softmax(-1), [(8, 10)]),
    "softmax, 64 x 1000": (lambda x: x.softmax(-1), [(64, 1000)]),
    "attention, 2 heads, 16 x 8": (F.scaled_dot_product_attention, [(2, 2, 16, 8)] * 3),
    "attention, 8 heads, 256 x 64": (F.scaled_dot_product_attention, [(2, 8, 256, 64)] * 3),
    "sum of 100": (lambda x: x.sum(), [(100,)]),
    "sum of 1,000,000": (lambda x: x.sum(), [(1_000_000,)]),
    "sum over rows, 256 x 1000": (lambda x: x.sum(0), [(256, 1000)]),
    "ReLU, 100,000": (F.relu, [(100_000,)]),
    "GELU, 100,000": (F.gelu, [(100_000,)]),
    "tanh, 100,000": (torch.tanh, [(100_000,)]),
}
"""Each kernel, and the shapes of its arguments."""


def fingerprint(*tensors: Tensor | None) -> str:
    """Return a hash of the bits of tensors."""
    content = hashlib.sha256()
    for tensor in tensors:
        assert tensor is not None
        content.update(tensor.detach().contiguous().numpy().tobytes())
    return content.hexdigest()[:16]


def hashes(kernel: Kernel, shapes: list[tuple[int, ...]]) -> tuple[str, str]:
    """Return the hashes of what a kernel gives, and of the gradients of all its arguments."""
    draws = np.random.default_rng(1)  # torch's own draws depend on the instruction set
    drawn = [torch.from_numpy(draws.standard_normal(shape, np.float32)) for shape in shapes]
    arguments = [one.requires_grad_() for one in drawn]
    output = kernel(*arguments)
    output.backward(torch.from_numpy(np.asarray(draws.standard_normal(output.shape, np.float32))))
    return fingerprint(output), fingerprint(*(one.grad for one in arguments))


def measured(setting: dict[str, str]) -> dict[str, list[str]]:
    """Return the hashes of all kernels, by a process with a setting."""
    variables = {name for one in SETTINGS.values() for name in one}
    kept = {name: value for name, value in os.environ.items() if name not in variables}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.parallel.kernel_bits"],
        env={**kept, "OMP_NUM_THREADS": "1", **setting},
        capture_output=True,
        check=True,
    )
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def verdict(found: list[str], default: list[str]) -> str:
    """Return what of a kernel has the bits of the default."""
    if found == default:
        return EQUAL
    return FORWARD if found[0] == default[0] else DIFFERENT


def main(_: Namespace, record: Record) -> None:
    """Compare all settings with the default, and print a table."""
    default = measured({})
    others = {name: measured(setting) for name, setting in SETTINGS.items()}
    rows = {
        kernel: {name: verdict(found[kernel], default[kernel]) for name, found in others.items()}
        for kernel in KERNELS
    }
    print(f"| | {' | '.join(SETTINGS)} |\n|{'---|' * (len(SETTINGS) + 1)}")
    for kernel, row in rows.items():
        print(f"| {kernel} | {' | '.join(row.values())} |")
    record.save(
        {"settings": SETTINGS, "capability": torch.backends.cpu.get_cpu_capability(), "kernels": rows}
    )


if __name__ == "__main__":
    print(json.dumps({name: hashes(*one) for name, one in KERNELS.items()}))
