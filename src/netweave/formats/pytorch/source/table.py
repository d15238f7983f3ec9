"""The table of operators that can be written, and what one is written from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.formats.pytorch.source.steps import Field, Module, Step
from netweave.graph import attributes_of, known_shape, layer_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import onnx_ir as ir

    from netweave.graph import Graph

_WRITERS: dict[tuple[str, str], Callable[[Call], Step]] = {}

MAX_INLINE = 8
"""Constants of at most this many numbers stand in the expression."""


class Refused(Exception):  # noqa: N818 (not an error of the user's: it is collected)
    """A node that cannot be written, with the reason."""


def written(*names: str, domain: str = "") -> Callable[[Any], Any]:
    """Register the decorated function for operators; it raises ``Refused`` where it has no form."""

    def register(write: Callable[[Call], Step]) -> Callable[[Call], Step]:
        _WRITERS.update({(domain, name): write for name in names})
        return write

    return register


def find_writer(node: ir.Node) -> Callable[[Call], Step] | None:
    """Return the function that writes a node, or None if there is none."""
    return _WRITERS.get((node.domain, node.op_type))


def all_written() -> list[str]:
    """Return the operators that can be written."""
    return sorted(f"{domain}.{name}" if domain else name for domain, name in _WRITERS)


class Call:
    """One node while it is written.

    Args:
        node: The node.
        graph: Its graph.
    """

    def __init__(self, node: ir.Node, graph: Graph) -> None:
        self.node = node
        self.attributes = attributes_of(node)
        self._layers = tuple(graph.layers[key].name for key in layer_keys(node) if key in graph.layers)

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

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute."""
        return self.attributes.get(name, default)

    def step(
        self,
        template: str,
        *,
        inputs: Sequence[int] = (0,),
        module: Module | None = None,
        binds: bool = True,
        num_outputs: int = 1,
    ) -> Step:
        """Return the node as an expression over some of its inputs.

        Args:
            template: See ``Step``.
            inputs: Numbers of the inputs that it reads.
            module: Its module.
            binds: See ``Step``.
            num_outputs: How many of the node's outputs are given.
        """
        return Step(
            name=self._layers[0] if self._layers else self.node.op_type,
            layers=self._layers,
            template=template,
            inputs=tuple(self.value(index).name or "" for index in inputs),
            outputs=tuple(value.name or "" for value in self.node.outputs[:num_outputs]),
            module=module,
            binds=binds,
        )

    def operand(self, index: int, place: int) -> tuple[str, list[int], Module | None]:
        """Return how an input is written: a placeholder, a number, or an array of a module.

        Args:
            index: The input.
            place: The number of the placeholder, if it needs one.

        Returns:
            The text, the inputs that the placeholder stands for, and the module that holds an array.
        """
        if not self.is_stored(index):
            return f"{{{place}}}", [index], None
        array = self.constant(index)
        if array.ndim == 0 or (array.size == 1 and array.ndim <= 1):
            return number(array.reshape(-1)[0]), [], None
        fields = (Field("shape", tuple(array.shape)),)
        return "{m}", [], Module("nn.Parameter", fields, {"": self.lazily(index)})


def number(value: Any) -> str:
    """Return a number as Python writes it, with no more digits than its type holds.

    >>> number(np.float32(0.1)), number(np.int64(3)), number(np.float32(2))
    ('0.1', '3', '2.0')
    """
    if isinstance(value, float):
        return number(np.float32(value))
    if not isinstance(value, np.generic):
        return repr(value)
    if not isinstance(value, np.floating):
        return str(value.item())
    if not np.isfinite(value):
        return f'float("{value.item()}")'
    small = abs(value) < 1e-4 and value != 0
    return (
        np.format_float_scientific(value, trim="-") if small else np.format_float_positional(value, trim="0")
    )


def same(numbers: Sequence[int]) -> int | tuple[int, ...]:
    """Return one number for equal ones, as PyTorch takes it for every axis."""
    return numbers[0] if len(set(numbers)) == 1 else tuple(numbers)
