"""Arrays that can stand in one place only: each net has one dense layer of that size, or one table."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from netweave.comparison.align.copy_arrays import set_filters, set_values
from netweave.comparison.align.weights import as_dense, filter_shape, filters_of
from netweave.comparison.signals import constants_of, family_of
from netweave.graph import parameter_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import onnx_ir as ir

    from netweave.comparison.signals import Signals

Place = tuple[str, tuple[int, ...]]
"""What an array is read as, and its sizes."""

Reader = tuple["ir.Node", "ir.Value"]
"""A node, and a stored array among its inputs."""


def copy_unique_arrays(source: Signals, target: Signals, *, is_open: Callable[[ir.Value], bool]) -> None:
    """Give arrays of one net, in place, those of the other that nothing else can stand for.

    Where one net goes over a sequence step by step, its layers have no single partner in the other.

    Args:
        source: The net whose arrays are given.
        target: The net that takes them.
        is_open: Whether a value of the target still waits for its array.
    """
    given, taken = _by_place(source), _by_place(target)
    for place, arrays in taken.items():
        if len(arrays) != 1 or len(given.get(place, {})) != 1:
            continue
        (readers,), (((maker, array), *_),) = arrays.values(), given[place].values()
        for node, value in readers if all(is_open(value) for _, value in readers) else ():
            if place[0] == "filters":
                set_filters(node, filters_of(maker))
            elif array.const_value is not None:
                set_values(value, array.const_value.numpy())


def _by_place(signals: Signals) -> dict[Place, dict[str, list[Reader]]]:
    """Return who reads stored arrays, by what they are read as and then by the array."""
    readers: dict[Place, dict[str, list[Reader]]] = defaultdict(lambda: defaultdict(list))
    for node in signals.nodes:
        for place, value in _places(node):
            readers[place][parameter_key(value) or str(value.name)].append((node, value))
    return readers


def _places(node: ir.Node) -> Iterator[tuple[Place, ir.Value]]:
    constants = {index: value for index, value in constants_of(node).items() if value.const_value is not None}
    shape = filter_shape(node)
    for index, value in constants.items():
        assert value.const_value is not None
        sizes = tuple(int(size) for size in value.const_value.shape.numpy())
        if shape is not None and index == 1:
            yield ("filters", as_dense(shape)), value
        elif shape is not None or (family_of(node) == "affine" and node.op_type == "Add"):
            yield ("bias", (value.const_value.size,)), value
        elif node.op_type == "Gather" and index == 0:
            yield ("table", sizes), value
