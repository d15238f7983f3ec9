"""The table of operators that can be written, and what one is written from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from netweave.files.node_writer import WriterTable
from netweave.files.source_code.forward import Field, Module, Step
from netweave.files.source_code.node import SourceNode
from netweave.files.source_code.text import number
from netweave.graph import parameter_key

TABLE: WriterTable[PyTorchNode, Step | list[Step]] = WriterTable()
"""The operators that can be written, as a step or several."""

writes = TABLE.writes


class PyTorchNode(SourceNode):
    """A node that is being written."""

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
        return "{m}", [], self.parameter(index)

    def parameter(self, index: int) -> Module:
        """Return a stored input as an array of the net, with the name that the source has for it."""
        value = self.value(index)
        fields = (Field("shape", self.stored_shape(index)),)
        return Module("nn.Parameter", fields, {"": self.lazy_array(index)}, parameter_key(value) or "")

    def step(
        self,
        template: str,
        *,
        inputs: Sequence[int] = (0,),
        module: Module | None = None,
        binds: bool = True,
        num_outputs: int = 1,
    ) -> Step:
        """Return the node as an expression, named as the source names the array that it has."""
        step = super().step(template, inputs=inputs, module=module, binds=binds, num_outputs=num_outputs)
        return replace(step, name=module.name) if module is not None and module.name else step
