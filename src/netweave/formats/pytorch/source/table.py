"""The table of operators that can be written, and what one is written from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.node_writer import GraphNode, WriterTable
from netweave.files.source_code.steps import Field, Module, Step
from netweave.files.source_code.text import number

if TYPE_CHECKING:
    from collections.abc import Sequence

TABLE: WriterTable[PyTorchNode, Step | list[Step]] = WriterTable()
"""The operators that can be written, as a step or several."""

writes = TABLE.writes


class PyTorchNode(GraphNode):
    """A node that is being written."""

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
            name=self.layers[0] if self.layers else self.ir_node.op_type,
            layers=self.layers,
            template=template,
            inputs=tuple(self.value(index).name or "" for index in inputs),
            outputs=tuple(value.name or "" for value in self.ir_node.outputs[:num_outputs]),
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
        return "{m}", [], Module("nn.Parameter", fields, {"": self.lazy_array(index)})
