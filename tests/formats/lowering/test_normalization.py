"""Normalisations over any axis, against their formulas."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.formats.lowering.elementwise import batch_normalization, layer_normalization
from netweave.graph import Statistics, statistics_of
from tests.formats.lowering.contexts import OneLayer

SIZES = (2, 3, 4, 5)
EPS = 1e-3


def _drawn(*sizes: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(sizes).astype(np.float32)


def _along(vector: np.ndarray, axis: int) -> np.ndarray:
    return vector.reshape([-1 if each == axis else 1 for each in range(len(SIZES))])


@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize("is_fixed", [False, True])
def test_batch_normalization(axis: int, is_fixed: bool) -> None:
    x, size = _drawn(*SIZES), SIZES[axis]
    gamma, beta, mean = (_drawn(size, seed=seed) for seed in (1, 2, 3))
    variance = np.exp(_drawn(size, seed=4))
    ctx = OneLayer(x=x)

    y = batch_normalization(
        ctx,
        ctx.x,
        gamma=None if is_fixed else ctx.constant(gamma),
        beta=None if is_fixed else ctx.constant(beta),
        mean=ctx.constant(mean),
        variance=ctx.constant(variance),
        epsilon=EPS,
        axis=axis,
        statistics=Statistics(fixed=True),
    )

    if is_fixed:
        gamma, beta = np.ones(size), np.zeros(size)
    scale = gamma / np.sqrt(variance + EPS)
    expected = (x - _along(mean, axis)) * _along(scale, axis) + _along(beta, axis)
    (made,) = ctx.run([y])
    np.testing.assert_allclose(made, expected, atol=1e-5)
    (node,) = (n for n in _nodes(y) if n.op_type == "BatchNormalization")
    assert statistics_of(node).fixed
    assert len(_nodes(y)) == (1 if axis == 1 else 3)


@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize("has_shift", [False, True])
def test_layer_normalization(axis: int, has_shift: bool) -> None:
    x, size = _drawn(*SIZES), SIZES[axis]
    gamma, beta = _drawn(size, seed=1), _drawn(size, seed=2) * has_shift
    ctx = OneLayer(x=x)

    y = layer_normalization(
        ctx,
        ctx.x,
        gamma=ctx.constant(gamma),
        beta=ctx.constant(beta) if has_shift else None,
        epsilon=EPS,
        axis=axis,
    )

    normal = (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + EPS)
    (made,) = ctx.run([y])
    np.testing.assert_allclose(made, normal * _along(gamma, axis) + _along(beta, axis), atol=1e-5)


def _nodes(value: object) -> list[object]:
    """Return the nodes behind a value that has one input at each."""
    nodes = []
    while (node := value.producer()) is not None:  # type: ignore[attr-defined]
        nodes.append(node)
        value = node.inputs[0]
    return nodes
