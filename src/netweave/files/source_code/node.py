"""A node that is being written as an expression of Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.node_writer import GraphNode
from netweave.files.source_code.steps import Module, Step

if TYPE_CHECKING:
    from collections.abc import Sequence


class SourceNode(GraphNode):
    """A node that is being written as source."""

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
            module: Its module, if it has one.
            binds: See ``Step``.
            num_outputs: How many of the node's outputs are given.
        """
        return Step(
            name=self.layers[0] if self.layers else self.default_name(),
            layers=self.layers,
            template=template,
            inputs=tuple(self.value(index).name or "" for index in inputs),
            outputs=tuple(value.name or "" for value in self.outputs[:num_outputs]),
            module=module,
            binds=binds,
        )

    def default_name(self) -> str:
        """Return what a node is called that is of no layer of the source."""
        return self.op_type
