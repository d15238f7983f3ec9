"""Context of TensorFlow Lite's operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.formats.lowering.channels_last import ChannelsLastLayer, ChannelsLastNet, Stored, Tensor
from netweave.formats.lowering.elementwise import clip
from netweave.formats.tensorflow.folding import fold
from netweave.formats.tensorflow.interpreter import Interpreter
from netweave.formats.tensorflow.lite.operators import LITE_READERS
from netweave.formats.tensorflow.lite.program import OPERANDS, TENSOR, Operands
from netweave.formats.tensorflow.lite.tensors import ROUNDED, LiteTensor, Quantization
from netweave.formats.tensorflow.nodes import Node, OperatorReader, Program, TensorFlowOperation
from netweave.formats.tensorflow.opening import Variables
from netweave.formats.tensorflow.operands import Item
from netweave.formats.tensorflow.operators import READERS

if TYPE_CHECKING:
    from netweave.formats.tensorflow.reader import Inputs


FUNCTIONS = {"RELU": "Relu", "RELU6": "Relu6", "TANH": "Tanh", "SIGN_BIT": "Sign"}
"""Functions that may be joined to an operator, by TFLite's name."""


class LiteOperator(TensorFlowOperation):
    """One operator of the net while it is lowered.

    Args:
        node: Its node.
        inputs: What it reads, without optional inputs that are left out.
        interpreter: Who reads; calls of subgraphs go back to it.
        place: Where the operator stands, for messages.
    """

    def __init__(self, node: Node, inputs: Sequence[Item], interpreter: Interpreter, place: str) -> None:
        self.tensors: Operands = node.attributes[OPERANDS]
        super().__init__(node, inputs, interpreter, place)
        given = iter(inputs)
        self.positions = [None if tensor is None else next(given) for tensor in self.tensors.inputs]

    def item(self, index: int) -> Item:
        """Return an input as it is, counted with those that are left out.

        Raises:
            ReadError: There is no such input.
        """
        item = self.positions[index] if index < len(self.positions) else None
        if item is None:
            raise self.read_error(f"has {len(self.inputs)} inputs, but number {index + 1} is needed")
        return item

    def optional(self, index: int) -> Tensor | Stored | None:
        """Return an input that may be left out."""
        there = index < len(self.positions) and self.positions[index] is not None
        return self.operand(index) if there else None

    def stored(self, index: int, what: str) -> Stored:
        """Return an input that the file stores.

        Args:
            index: Which input.
            what: What it is, for a message.

        Raises:
            UnsupportedError: It is computed while the net runs.
        """
        item = self.item(index)
        if not isinstance(item, Stored):
            raise self.unsupported(f"{what} is computed while the net runs, which is not supported")
        return item

    def call(
        self, op: str, inputs: Sequence[Item | Any] | None = None, attributes: dict[str, Any] | None = None
    ) -> list[Item]:
        """Compute what an operator of TensorFlow does; at once, where all numbers are known.

        Args:
            op: TensorFlow's name of it.
            inputs: What it reads, numbers as they are; by default what this operator reads.
            attributes: Its attributes; by default the options of this operator.
        """
        node = Node(self.node.name, op, self.node.inputs, attributes or self.node.attributes)
        given = [self._item(item) for item in (self.inputs if inputs is None else inputs)]
        folded = fold(node, given)
        if folded is not None:
            return folded
        other = TensorFlowOperation(node, given, self.interpreter, self.place)
        other.within(self)
        items = READERS[op].read(other)
        return [items] if isinstance(items, Item) else list(items)

    def _item(self, item: Any) -> Item:
        return item if isinstance(item, Item) else Stored.constant(np.asarray(item))

    # What is joined to an operator, or follows from its scales.

    def finished(self, items: Sequence[Item], *, moves: bool) -> list[Item]:
        """Return an operator's outputs behind the function that is joined to it, rounded by their scales.

        Args:
            items: What it gives.
            moves: Whether it gives elements of its inputs as they are.
        """
        name = str(self.setting("fused_activation_function", "NONE"))
        outputs = list(items)
        if name != "NONE" and outputs and isinstance(outputs[0], Tensor):
            outputs[0] = self._activated(name, outputs[0])
        scales = [tensor.quantization for tensor in self.tensors.outputs]
        before = [tensor.quantization for tensor in self.tensors.inputs if tensor and tensor.quantization]
        return [
            rounded(self, item, scale)
            if scale is not None
            and isinstance(item, Tensor)
            and not (moves and before and _all_equal(scale, before))
            else item
            for item, scale in zip(outputs, [*scales, *[None] * len(outputs)], strict=False)
        ]

    def _activated(self, name: str, x: Tensor) -> Tensor:
        if name == "RELU_N1_TO_1":
            return self.elementwise(clip, x, low=-1.0, high=1.0)
        if name not in FUNCTIONS:
            raise self.unsupported(f"fused_activation_function={name} is not supported")
        return self.elementwise(FUNCTIONS[name], x)


def _all_equal(scale: Quantization, others: Sequence[Quantization]) -> bool:
    return all(map(scale.equals, others))


def rounded(ctx: TensorFlowOperation, x: Tensor, scale: Quantization) -> Tensor:
    """Return a computed tensor in the steps of its scale.

    Raises:
        UnsupportedError: It has several scales, or a type that no activation has.
    """
    if scale.scale.size > 1 or scale.dtype not in ROUNDED:
        raise ctx.unsupported(
            f"computes {scale.dtype.name} with {scale.scale.size:,} scales, which is not supported"
        )
    return scale.rounded(ctx, x)


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
