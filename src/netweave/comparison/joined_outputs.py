"""One net returns its results side by side in one tensor, the other each by itself.

Which of the two a net does is a matter of who reads its outputs, so the tensor is compared as the parts that
it joins, and the verdict states how they are joined.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.comparison.names import list_names
from netweave.graph import known_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.graph import Graph


@dataclass(frozen=True, slots=True)
class JoinedOutput:
    """An output that joins what the other net returns as several.

    Attributes:
        name: Name of the output.
        parts: Names of the values that it joins, in order; the net is compared with these as its outputs.
        axis: The axis that they are joined along.
    """

    name: str
    parts: tuple[str, ...]
    axis: int

    def in_words(self, owner: str, counterparts: Sequence[str]) -> str:
        """Return how the outputs of one net become that of the other.

        Args:
            owner: ``A`` or ``B``, whichever returns them joined.
            counterparts: Outputs of the other net, in the order in which they are joined.
        """
        names = list_names([repr(name) for name in counterparts])
        if owner == "B":
            return f"B returns {self.name!r}, which is {names} of A joined along axis {self.axis}"
        return f"B returns {names}, which A joins along axis {self.axis} as {self.name!r}"


def find_joined_outputs(graph: Graph, num_outputs: int) -> list[JoinedOutput]:
    """Return the outputs of a graph that are to be compared in parts, so that it has as many as the other.

    Args:
        graph: The net with fewer outputs.
        num_outputs: How many the other one has.
    """
    joined = [output for value in graph.outputs if (output := _joined(value)) is not None]
    more = sum(len(output.parts) - 1 for output in joined)
    return joined if len(graph.outputs) + more == num_outputs else []


def part_outputs(graph: Graph, joined: Sequence[JoinedOutput]) -> Graph:
    """Return a graph, changed in place, that returns the parts of some outputs in their place."""
    by_name = {output.name: output for output in joined}
    inner = graph.model.graph
    outputs: list[ir.Value] = []
    for value in list(inner.outputs):
        maker = value.producer()
        if str(value.name) not in by_name or maker is None:
            outputs.append(value)
            continue
        outputs += [part for part in maker.inputs if part is not None]
    inner.outputs[:] = outputs
    for node in [node for node in inner if any(str(value.name) in by_name for value in node.outputs)]:
        inner.remove(node, safe=True)
    return graph


def _joined(value: ir.Value) -> JoinedOutput | None:
    """Return an output as one that joins parts, if it is that and nothing else reads it or them."""
    maker = value.producer()
    shape = known_shape(value)
    if maker is None or (maker.domain, maker.op_type) != ("", "Concat") or value.uses():
        return None
    parts = list(maker.inputs)
    if any(part is None or part.producer() is None or part.is_graph_output() for part in parts):
        return None
    names = tuple(str(part.name) for part in parts if part is not None)
    axis = maker.attributes["axis"].as_int()
    axis += len(shape) if axis < 0 and shape is not None else 0
    return JoinedOutput(str(value.name), names, axis) if len(set(names)) == len(names) else None
