"""What writers share: one node while it is written for another framework, and what cannot be written."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from netweave.errors import UnsupportedError
from netweave.graph import attributes_of, known_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import onnx_ir as ir

    from netweave.graph import Graph


C = TypeVar("C")
R = TypeVar("R")


class Refused(Exception):  # noqa: N818 (not an error of the user's: it is collected)
    """A node that cannot be written, with the reason."""


class Refusals:
    """Nodes that cannot be written, collected so that all are named at once.

    Args:
        graph: Their graph.
        target: What is written, for people: ``PyTorch source``.
        hint: What to do instead.
    """

    def __init__(self, graph: Graph, target: str, hint: str = "write it as .onnx instead") -> None:
        self._graph = graph
        self._target = target
        self._hint = hint
        self._nodes: dict[str, list[ir.Node]] = {}

    @contextmanager
    def collecting(self, node: ir.Node) -> Iterator[None]:
        """Note the node if what is done with it raises ``Refused``."""
        try:
            yield
        except Refused as reason:
            kind = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            self._nodes.setdefault(f"{kind}: {reason}" if reason.args else kind, []).append(node)

    def check(self) -> None:
        """Raise ``UnsupportedError`` if there are any; each kind is named once, with its first node."""
        if not self._nodes:
            return
        shown = "; ".join(
            f"{kind} ({len(nodes)}, first {nodes[0].name!r}{self._line(nodes[0])})"
            for kind, nodes in self._nodes.items()
        )
        raise UnsupportedError(
            f"cannot be written as {self._target}: {shown}; {self._hint}",
            place=self._graph.files[0] if self._graph.files else self._graph.name,
        )

    def _line(self, node: ir.Node) -> str:
        """Return the line of the source that a node comes from, if it has one."""
        origins = [layer.origin for layer in self._graph.layers_of(node)]
        lines = [origin.line for origin in origins if origin is not None and origin.line is not None]
        return f" on line {lines[0]}" if lines else ""


class WriterTable(Generic[C, R]):
    """Operators that can be written for a framework: what is given a call and returns what is written."""

    def __init__(self) -> None:
        self._writers: dict[tuple[str, str], Callable[[C], R]] = {}

    def written(self, *names: str, domain: str = "") -> Callable[[Callable[[C], R]], Callable[[C], R]]:
        """Register the decorated function for operators; it raises ``Refused`` where it has no form."""

        def register(write: Callable[[C], R]) -> Callable[[C], R]:
            for name in names:
                assert (domain, name) not in self._writers, f"{domain}.{name} is written twice"
                self._writers[domain, name] = write
            return write

        return register

    def find(self, node: ir.Node) -> Callable[[C], R]:
        """Return the function that writes a node.

        Raises:
            Refused: There is none.
        """
        found = self._writers.get((node.domain, node.op_type))
        if found is None:
            raise Refused
        return found

    def has(self, op_type: str, domain: str) -> bool:
        """Whether a function is registered for an operator."""
        return (domain, op_type) in self._writers

    def names(self) -> list[tuple[str, str]]:
        """Return the operators, by domain and name."""
        return sorted(self._writers)

    def unknown(self, node: ir.Node) -> bool:
        """Whether no function writes a node."""
        return (node.domain, node.op_type) not in self._writers


class NodeCall:
    """One node while it is written.

    Args:
        node: The node.
        graph: Its graph.

    Attributes:
        layers: Names of the source's layers that the node belongs to.
    """

    def __init__(self, node: ir.Node, graph: Graph) -> None:
        self.node = node
        self.attributes = attributes_of(node)
        self._graph = graph
        self.layers = self.layers_of(node)

    def layers_of(self, node: ir.Node) -> tuple[str, ...]:
        """Return the names of the source's layers that a node of the graph belongs to."""
        return tuple(layer.name for layer in self._graph.layers_of(node))

    @property
    def num_inputs(self) -> int:
        """Number of inputs, those left out at the end not counted."""
        inputs = list(self.node.inputs)
        while inputs and inputs[-1] is None:
            inputs.pop()
        return len(inputs)

    def has(self, index: int) -> bool:
        """Whether there is an input of this number."""
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def value(self, index: int) -> ir.Value:
        """Return an input."""
        found = self.node.inputs[index]
        if found is None:
            raise Refused(f"its input {index} is left out")
        return found

    def is_stored(self, index: int) -> bool:
        """Whether an input is a stored array."""
        return self.value(index).const_value is not None

    def lazily(self, index: int) -> Callable[[], np.ndarray]:
        """Return a function that gives a stored input.

        Raises:
            Refused: It is computed by the net.
        """
        tensor = self.value(index).const_value
        if tensor is None:
            raise Refused(f"its input {self.value(index).name!r} is computed, expected a stored array")
        return tensor.numpy

    def constant(self, index: int) -> np.ndarray:
        """Return a stored input."""
        return np.asarray(self.lazily(index)())

    def wholes(self, index: int) -> list[int]:
        """Return a stored input that is a list of whole numbers."""
        return [int(number) for number in self.constant(index).reshape(-1)]

    def shape(self, index: int) -> tuple[int | None, ...]:
        """Return the sizes of an input, None for one that is not known.

        Raises:
            Refused: Even its rank is not known.
        """
        found = known_shape(self.value(index))
        if found is None:
            raise Refused(f"the rank of {self.value(index).name!r} is not known")
        return found

    def rank(self, index: int) -> int:
        """Return the number of axes of an input."""
        return len(self.shape(index))

    def axis(self, name: str, default: int, *, index: int = 0) -> int:
        """Return an attribute that is an axis of an input, counted from the front."""
        return int(self.get(name, default)) % self.rank(index)

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute."""
        return self.attributes.get(name, default)


def same(numbers: Sequence[int]) -> int | tuple[int, ...]:
    """Return one number for equal ones, as most frameworks take it for every axis."""
    return numbers[0] if len(set(numbers)) == 1 else tuple(numbers)
