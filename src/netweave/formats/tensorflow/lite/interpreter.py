"""Reading the nodes of a TFLite net: TensorFlow's interpreter, with TFLite's operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.lowering.channels_last import ChannelsLastLayer, Tensor
from netweave.formats.tensorflow.interpreter import Interpreter
from netweave.formats.tensorflow.lite.context import LiteOperator
from netweave.formats.tensorflow.lite.operators import LITE_READERS
from netweave.formats.tensorflow.lite.program import OPERANDS, TENSOR
from netweave.formats.tensorflow.registry import OperatorReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.formats.lowering.channels_last import ChannelsLastNet
    from netweave.formats.tensorflow.inputs import Inputs
    from netweave.formats.tensorflow.lite.tensors import LiteTensor
    from netweave.formats.tensorflow.nodes import Node, Program
    from netweave.formats.tensorflow.operands import Item
    from netweave.formats.tensorflow.variables import Variables

MAX_UNROLLED = 8_000
"""Operators that loops may add: a recurrent layer has some twenty a step, and one damaged byte makes of five
steps a billion."""


class LiteInterpreter(Interpreter):
    """Reads a program's nodes, of which those of TFLite have operands with scales.

    Args:
        program: As for the base class, like all that follow.
        net: What its nodes share.
        variables: Gives the arrays of variables.
        inputs: Gives the net's inputs.
    """

    def __init__(
        self, program: Program, net: ChannelsLastNet, *, variables: Variables, inputs: Inputs
    ) -> None:
        super().__init__(program, net, variables=variables, inputs=inputs)
        bodies = (program.main, *program.functions.values())
        self.max_nodes = sum(len(body.nodes) for body in bodies) + MAX_UNROLLED

    def _read(self, node: Node, inputs: Sequence[Item]) -> Sequence[Item]:
        if OPERANDS not in node.attributes:
            return [self._as_fed(node, item) for item in super()._read(node, inputs)]
        place = self.program.place(node)
        self.spend(1, place)
        ctx = LiteOperator(node, inputs, self, place)
        reader = LITE_READERS[node.op]
        if not any(isinstance(item, Tensor) for item in inputs):
            reader = OperatorReader(reader.read, plain=True)  # of what is stored alone: nothing to show
        with ctx.located_errors():
            return self._lower(reader, ctx)

    def _as_fed(self, node: Node, item: Item) -> Item:
        """Return an input of integers as the real numbers that these can stand for."""
        tensor: LiteTensor | None = node.attributes.get(TENSOR)
        if tensor is None or tensor.quantization is None or not isinstance(item, Tensor):
            return item
        name = self.inputs.name_of(node)
        self.inputs.notes.append(
            f"the input {name!r} is {tensor.type} in the file; here it takes the real numbers that these "
            "stand for"
        )
        ctx = ChannelsLastLayer(self.net, place=self.program.place(node))
        return tensor.quantization.rounded(ctx, item)
