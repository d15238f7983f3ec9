"""Depth-first order: what readers, and a net that a program makes, put nodes into."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K")


class CycleError(Exception, Generic[K]):
    """Nodes read one another in a circle; a caller says so in the words of its file.

    Attributes:
        path: The nodes of the circle: each reads the next, and the last the first.
    """

    def __init__(self, path: list[K]) -> None:
        super().__init__(path)
        self.path = path


def inputs_first(
    ends: Iterable[K], sources: Callable[[K], Iterable[K]], *, known: Container[K] = ()
) -> list[K]:
    """Return what some nodes need, and the nodes themselves, each after those that it reads.

    Args:
        ends: The nodes, in their order.
        sources: Gives what a node reads, in its order.
        known: Nodes that are there already; they are left out.

    Raises:
        CycleError: Nodes read one another in a circle.

    >>> inputs_first(["c"], {"a": [], "b": ["a"], "c": ["a", "b"]}.__getitem__)
    ['a', 'b', 'c']
    """
    order: dict[K, None] = {}
    path: dict[K, Iterator[K]] = {}  # each reads the next; with the sources that it still waits for
    for end in ends:
        if end not in order and end not in known:
            path[end] = iter(sources(end))
        while path:
            node, waiting = next(reversed(path.items()))
            source = next((each for each in waiting if each not in order and each not in known), None)
            if source is None:
                order[node] = None
                del path[node]
            elif source in path:
                nodes = list(path)
                raise CycleError(nodes[nodes.index(source) :])
            else:
                path[source] = iter(sources(source))
    return list(order)
