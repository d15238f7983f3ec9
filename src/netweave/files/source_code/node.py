"""A node that is being written as an expression of Python."""

from __future__ import annotations

import re
from collections.abc import Sequence

from netweave.files.node_writer import GraphNode
from netweave.files.source_code.forward import Module, Step
from netweave.files.source_code.text import number


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

    def with_settings(self, form: str) -> str:
        """Return an expression with the node's attributes where it names them: ``<alpha>``."""
        return re.sub(r"<(\w+)>", lambda place: self._shown(place[1]), form)

    def _shown(self, name: str) -> str:
        value = self.get(name)
        return value if isinstance(value, str) else number(value)

    def default_name(self) -> str:
        """Return what a node is called that is of no layer of the source."""
        return self.op_type
