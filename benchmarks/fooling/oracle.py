"""ONNX Runtime on inputs of another distribution: whether two nets differ, whoever compares them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnxruntime as ort

if TYPE_CHECKING:
    from onnx import ModelProto

NUM_INPUTS = 10_000
"""Samples on which two nets are run: drawn from Student's t with heavy tails, not as Netweave draws."""

NUM_FIXED = 100
"""Runs of nets whose batch is fixed."""

TOLERANCE = 1e-2
"""Error relative to the rms above which outputs differ: ten times the bound of the comparison."""


def session(model: ModelProto) -> ort.InferenceSession:
    """Return a net ready to run on one thread."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def draw(net: ort.InferenceSession, generator: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    """Return inputs of a net.

    Args:
        net: The net.
        generator: Draws them.
        rows: Bound of integers: those from 0 to it, or of both signs and any size if it is 0.
    """
    drawn = {}
    for value in net.get_inputs():
        shape = [size if isinstance(size, int) else NUM_INPUTS for size in value.shape]
        if "uint8" in value.type:
            drawn[value.name] = generator.integers(0, 256, shape).astype(np.uint8)
        elif "int64" in value.type:
            low, high = (0, rows) if rows else (-3000, 3000)
            drawn[value.name] = generator.integers(low, high, shape)
        elif value.name == "boxes":
            corner = generator.uniform(0, 4, (*shape[:-1], 2))
            sizes = generator.gamma(2, 0.5, corner.shape)
            drawn[value.name] = np.concatenate([corner, corner + sizes], -1).astype(np.float32)
        elif value.name == "scores":
            drawn[value.name] = generator.beta(0.7, 1.5, shape).astype(np.float32)
        else:
            scale = 10 ** generator.uniform(-2, 2, (shape[0], *[1] * (len(shape) - 1)))
            drawn[value.name] = (generator.standard_t(2, shape) * scale).astype(np.float32)
    return drawn


def differ(a: ModelProto, b: ModelProto, *, seed: int, rows: int) -> bool | None:
    """Return whether two nets differ on drawn inputs; None if one of them does not run.

    Args:
        a: A net.
        b: Another one with the same inputs.
        seed: What the inputs are drawn by.
        rows: As for ``draw``.
    """
    generator = np.random.default_rng(seed)
    try:
        nets = session(a), session(b)
        is_fixed = all(isinstance(size, int) for value in nets[0].get_inputs() for size in value.shape)
        for _ in range(NUM_FIXED if is_fixed else 1):
            inputs = draw(nets[0], generator, rows)
            made = [net.run(None, inputs) for net in nets]
            if any(_apart(x, y) for x, y in zip(*made, strict=True)):
                return True
    except Exception:  # noqa: BLE001  # a net that the mutation broke is no pair
        return None
    return False


def _apart(x: np.ndarray, y: np.ndarray) -> bool:
    if x.shape != y.shape:
        return True
    if x.dtype.kind != "f":
        return not np.array_equal(x, y)
    x, y = (each.reshape(len(each) if each.ndim else 1, -1).astype(np.float64) for each in (x, y))
    finite = np.isfinite(x).all(axis=1) & np.isfinite(y).all(axis=1)
    if not np.array_equal(np.isnan(x), np.isnan(y)):
        return True
    x, y = x[finite], y[finite]
    rms = np.sqrt((x * x).mean(axis=1))
    error = np.abs(x - y).max(axis=1, initial=0)
    return bool((error > TOLERANCE * rms + 1e-6).any())
