"""Sequences of nodes, or of anything, held against each other."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence


def increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return a longest part of ``pairs``, sorted by the first number, in which the second grows too.

    >>> increasing([(0, 0), (1, 5), (2, 1), (3, 2)])
    [(0, 0), (2, 1), (3, 2)]
    """
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for index, (_, second) in enumerate(pairs):
        place = bisect_left(tails, second)
        before.append(ends[place - 1] if place else -1)
        if place == len(tails):
            tails.append(second)
            ends.append(index)
        else:
            tails[place] = second
            ends[place] = index
    longest = []
    index = ends[-1] if ends else -1
    while index >= 0:
        longest.append(pairs[index])
        index = before[index]
    return longest[::-1]


def common_subsequence(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the places of a longest common subsequence.

    >>> common_subsequence("conv", "cnv")
    [(0, 0), (2, 1), (3, 2)]
    """
    lengths = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a) - 1, -1, -1):
        for j in range(len(b) - 1, -1, -1):
            same = a[i] == b[j]
            lengths[i][j] = lengths[i + 1][j + 1] + 1 if same else max(lengths[i + 1][j], lengths[i][j + 1])
    places, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            places.append((i, j))
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            i += 1
        else:
            j += 1
    return places


def best_in_order(scores: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Return the places of pairs that run the same way and have the largest sum of scores.

    Args:
        scores: What it counts to pair each of the first with each of the second; 0 if they may not be.

    >>> best_in_order([[2, 1], [1, 2], [0, 3]])
    [(0, 0), (2, 1)]
    """
    rows, columns = len(scores), len(scores[0]) if scores else 0
    sums = [[0] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows - 1, -1, -1):
        for j in range(columns - 1, -1, -1):
            paired = sums[i + 1][j + 1] + scores[i][j] if scores[i][j] else 0
            sums[i][j] = max(paired, sums[i + 1][j], sums[i][j + 1])
    places, i, j = [], 0, 0
    while i < rows and j < columns:
        if scores[i][j] and sums[i][j] == sums[i + 1][j + 1] + scores[i][j]:
            places.append((i, j))
            i, j = i + 1, j + 1
        elif sums[i + 1][j] >= sums[i][j + 1]:
            i += 1
        else:
            j += 1
    return places
