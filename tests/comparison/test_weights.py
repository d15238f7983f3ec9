"""Nodes with the same weights: found by search, held against trying all with all."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from netweave.comparison.align.weights import SAME_FINGERPRINT, fingerprint, match_weights


def node(filters: np.ndarray) -> ir.Node:
    """A convolution with these filters."""
    weight = ir.Value(
        name="w", shape=ir.Shape(filters.shape), type=ir.TensorType(ir.DataType.FLOAT),
        const_value=ir.Tensor(filters.astype(np.float32)),
    )  # fmt: skip
    return ir.Node("", "Conv", [ir.Value(name="x"), weight])


def all_with_all(a: list[np.ndarray], b: list[np.ndarray]) -> set[tuple[int, int]]:
    """The definition: nearest to each other by the median difference of all entries of the fingerprints."""
    marks = [np.stack([fingerprint(f.astype(np.float32)) for f in side]) for side in (a, b)]
    distance = np.median(np.abs(marks[0][:, None] - marks[1][None]), axis=2) / np.abs(marks[0]).mean()

    def nearest(row: np.ndarray) -> list[int]:
        least = row.min()
        same = row <= max(4 * least, SAME_FINGERPRINT / 20)
        return [] if least > SAME_FINGERPRINT else np.flatnonzero(same).tolist()

    found = set()
    for i in range(len(a)):
        partners = nearest(distance[i])
        rivals = nearest(distance[:, partners[0]]) if partners else []
        if partners and len(partners) == len(rivals) and i in rivals:
            found.add((i, partners[rivals.index(i)]))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_the_search_finds_what_trying_all_with_all_finds(seed):
    rng = np.random.default_rng(seed)
    a = [rng.standard_normal((12, 4, 3, 3)) for _ in range(30)]
    a[5] = a[4]  # shared weights
    b = [a[i] * rng.uniform(0.5, 2, (12, 1, 1, 1)) for i in rng.permutation(30)[:24]]  # folded, some left out
    b += [rng.standard_normal((12, 4, 3, 3)) for _ in range(6)]
    for filters in b[:4]:
        filters[rng.integers(12), 0, 0, 0] += 5.0  # one wrong weight
    b[7] = b[8] * (1 + 1e-4 * rng.standard_normal((12, 4, 3, 3)))  # near, but not the same
    nodes_a, nodes_b = [node(f) for f in a], [node(f) for f in b]
    place_a, place_b = ({id(n): i for i, n in enumerate(nodes)} for nodes in (nodes_a, nodes_b))
    found = {(place_a[id(x)], place_b[id(y)]) for x, y in match_weights(nodes_a, nodes_b)}
    assert found == all_with_all(a, b)
    assert len(found) >= 15


def test_the_same_weights_many_times_are_paired_in_order():
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((8, 8, 1, 1))
    nodes_a, nodes_b = ([node(shared) for _ in range(300)] for _ in range(2))
    pairs = match_weights(nodes_a, nodes_b)
    assert [(id(x), id(y)) for x, y in pairs] == [
        (id(x), id(y)) for x, y in zip(nodes_a, nodes_b, strict=True)
    ]


def test_weights_that_have_nothing_in_common_are_no_pairs():
    rng = np.random.default_rng(0)
    nodes_a, nodes_b = ([node(rng.standard_normal((8, 4, 3, 3))) for _ in range(count)] for count in (1, 2))
    assert match_weights(nodes_a, nodes_b) == []
