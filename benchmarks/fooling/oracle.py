"""ONNX Runtime on inputs of another distribution: whether two nets differ, whoever compares them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnxruntime as ort

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx import ModelProto

NUM_INPUTS = 10_000
"""Samples on which two nets are run: drawn from Student's t with heavy tails, not as Netweave draws."""

BLOCK = 250
"""Samples that are run at once: they stay in the cache, and most differences show in the first."""

NUM_SMALL_RUNS = 300
"""Runs of a few samples each, of nets that decide by what is in the batch as a whole."""

LENGTHS = (1, 2, 3, 7, 20, 65, 130, 300, 450)
"""Sizes of open axes behind the batch, one after the other."""

SMALL_BATCH = 3
"""Samples of such a run."""

TOLERANCE = 1e-2
"""Error relative to the rms above which outputs differ: ten times the bound of the comparison."""


def session(model: ModelProto) -> ort.InferenceSession:
    """Return a net ready to run on one thread, every operator as it is written.

    The optimisers of ONNX Runtime change what a net computes: of two pairs of quantisers in a row they keep
    the finer one, and they join a product with dequantised weights into one that rounds its input as well.
    """
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def draw(
    net: ort.InferenceSession,
    generator: np.random.Generator,
    rows: int,
    *,
    runs: int,
    batch: int,
    length: int,
) -> dict[str, np.ndarray]:
    """Return inputs of a net for several runs, one behind the other along a first axis of their own.

    Args:
        net: The net.
        generator: Draws them.
        rows: Bound of integers: those from 0 to it, or of both signs and any size if it is 0.
        runs: Number of runs.
        batch: Size of a first axis that is open.
        length: Size of the other open axes.
    """
    drawn = {}
    for value in net.get_inputs():
        sizes = enumerate(value.shape)
        shape = [size if isinstance(size, int) else length if axis else batch for axis, size in sizes]
        shape = [runs, *shape]
        dtype = np.dtype(DTYPES[value.type])
        if dtype.kind == "b":
            drawn[value.name] = generator.integers(0, 2, shape).astype(bool)
        elif dtype.kind in "iu":
            limits = np.iinfo(dtype)
            low, high = (0, rows) if rows else (max(limits.min, -3000), min(limits.max, 3000))
            drawn[value.name] = generator.integers(low, high + (not rows), shape).astype(dtype)
        elif value.name == "boxes":
            corner = generator.uniform(0, 4, (*shape[:-1], 2))
            sizes = generator.gamma(2, 0.5, corner.shape)
            drawn[value.name] = np.concatenate([corner, corner + sizes], -1).astype(np.float32)
        elif value.name == "scores":
            drawn[value.name] = generator.beta(0.7, 1.5, shape).astype(np.float32)
        else:
            scale = 10 ** generator.uniform(-2, 2, (*shape[:2], *[1] * (len(shape) - 2)))
            drawn[value.name] = (generator.standard_t(2, shape) * scale).astype(dtype)
    return drawn


DTYPES = {
    "tensor(bool)": "bool",
    "tensor(double)": "float64",
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(int16)": "int16",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
    "tensor(int8)": "int8",
    "tensor(uint8)": "uint8",
}


def differ(a: ModelProto, b: ModelProto, *, seed: int, rows: int) -> bool | None:
    """Return whether two nets differ on drawn inputs; None if one of them does not run.

    Nets of an open batch are run on blocks of samples, then on a few at a time if they decide by the whole
    batch or have other open sizes; those of a fixed batch as often as there are samples.

    Args:
        a: A net.
        b: Another one with the same inputs.
        seed: What the inputs are drawn by.
        rows: As for ``draw``.
    """
    generator = np.random.default_rng(seed)
    try:
        nets = session(a), session(b)
        for runs, batch, length in _sizes(a, nets[0]):
            drawn = draw(nets[0], generator, rows, runs=runs, batch=batch, length=length)
            for run in range(runs):
                inputs = {name: x[run] for name, x in drawn.items()}
                outputs = [net.run(None, inputs) for net in nets]
                apart = [_apart(x, y) for x, y in zip(*outputs, strict=True)]
                if any(map(np.any, apart)) and not _is_rounding(
                    nets[0], inputs, outputs[0], apart, generator
                ):
                    return True
    except Exception:  # noqa: BLE001  # a net that the mutation broke is no pair
        return None
    return False


def _sizes(model: ModelProto, net: ort.InferenceSession) -> Iterator[tuple[int, int, int]]:
    """Yield numbers of runs, each with the batch and the size of other open axes."""
    shapes = [value.shape for value in net.get_inputs()]
    if all(isinstance(size, int) for shape in shapes for size in shape):
        yield from [(BLOCK, 1, 1)] * (NUM_INPUTS // BLOCK)
    elif any(not isinstance(size, int) for shape in shapes for size in shape[1:]):
        yield from [(1, NUM_INPUTS // 100, length) for length in LENGTHS]
    else:
        yield from [(1, BLOCK, 1)] * (NUM_INPUTS // BLOCK)
    if any(node.op_type in WHOLE_BATCH for node in model.graph.node):
        yield from [(1, SMALL_BATCH, LENGTHS[i % len(LENGTHS)]) for i in range(NUM_SMALL_RUNS)]


WHOLE_BATCH = {"If", "Loop", "DynamicQuantizeLinear"}
"""Operators that make one decision for all samples."""


NUM_NUDGES = 16
"""Runs of a net on inputs that differ in the last bits, where two nets differ."""


def _is_rounding(
    net: ort.InferenceSession,
    inputs: dict[str, np.ndarray],
    outputs: list[np.ndarray],
    apart: list[np.ndarray],
    generator: np.random.Generator,
) -> bool:
    """Return whether a net differs from itself where two nets differ, on inputs with other last bits.

    Sums in another order differ in the last bits, and a rounding or a choice behind them shows that.
    """
    left = [rows.copy() for rows in apart]
    for _ in range(NUM_NUDGES):
        nudged = {
            name: (x * (1 + generator.uniform(-2e-7, 2e-7, x.shape))).astype(x.dtype)
            if x.dtype.kind == "f"
            else x
            for name, x in inputs.items()
        }
        for rows, x, y in zip(left, outputs, net.run(None, nudged), strict=True):
            rows &= ~_apart(x, y)
        if not any(map(np.any, left)):
            return True
    return False


def _apart(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return for each row of an output whether it differs in two nets."""
    if x.shape != y.shape:
        return np.ones(len(x) if x.ndim else 1, bool)
    x, y = (each.reshape(len(each) if each.ndim else 1, -1) for each in (x, y))
    if x.dtype.kind != "f":
        return (x != y).any(axis=1)
    x, y = x.astype(np.float64), y.astype(np.float64)
    is_finite = np.isfinite(x).all(axis=1) & np.isfinite(y).all(axis=1)
    rms = np.sqrt((x * x).mean(axis=1))
    error = np.abs(x - y).max(axis=1, initial=0)
    is_far = is_finite & (error > TOLERANCE * rms + 1e-6)
    return is_far | (np.isnan(x) != np.isnan(y)).any(axis=1)
