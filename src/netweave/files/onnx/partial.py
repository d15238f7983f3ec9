"""The part of an ONNX model whose operators are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.errors import UnsupportedError
from netweave.files.onnx.editing import bodies
from netweave.files.onnx.operators import is_known_operator
from netweave.files.partial import left_out_note, split_readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx_ir as ir


def remove_unreadable(model: ir.Model, *, place: str) -> tuple[str, ...]:
    """Remove the nodes with unknown operators and all that need them, and return notes on them.

    What they read becomes an output, beside those outputs of the net that are left.

    Args:
        model: The model, sorted and without functions; it is changed.
        place: The file, for messages.

    Raises:
        UnsupportedError: Nothing is left.
    """
    graph = model.graph
    readable, rest = split_readable(
        graph,
        is_unknown=lambda node: not _is_known(node, model),
        reads=_reads,
        makes=lambda node: node.outputs,
    )
    if not rest:
        return ()
    if not readable:
        raise UnsupportedError(
            "has no node that can be read without an unknown operator before it", place=place
        )
    kept = set(readable)
    gone = {value for node in rest for value in node.outputs}
    ends = [value for value in graph.outputs if value not in gone]
    ends += [value for node in rest for value in _reads(node) if value.producer() in kept]
    graph.outputs[:] = list(dict.fromkeys(ends))
    graph.remove(rest, safe=True)
    return (f"{place}: {left_out_note([node.name or node.op_type for node in rest], noun='node')}",)


def _is_known(node: ir.Node, model: ir.Model) -> bool:
    inner = (each for body in bodies(node) for each in body)
    return is_known_operator(node, model) and all(_is_known(each, model) for each in inner)


def _reads(node: ir.Node) -> Iterator[ir.Value]:
    """Yield what a node and the bodies in it read."""
    yield from (value for value in node.inputs if value is not None)
    for body in bodies(node):
        for each in body:
            yield from _reads(each)
