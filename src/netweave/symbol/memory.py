"""How much memory a net takes, in two numbers; ``netweave.memory_plan`` says what they are made of."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.graph.costs import num_bytes
from netweave.graph.wording import bytes_text
from netweave.memory_plan import prepare, timeline

if TYPE_CHECKING:
    from netweave.graph import Graph


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes; what allocators waste is not in them.

    Attributes:
        parameters: All stored arrays.
        inputs: One batch.
        inference: Parameters, inputs, and the most bytes alive at once in a run.
        training: Parameters, inputs, and the most bytes alive at once in a step, gradients among them;
            without the solver's own arrays.
    """

    parameters: int
    inputs: int
    inference: int
    training: int

    @property
    def predicting(self) -> int:
        """The former name of ``inference``; goes with the next release."""
        warnings.warn("Memory.predicting is now Memory.inference", DeprecationWarning, stacklevel=2)
        return self.inference

    def __str__(self) -> str:
        return (
            f"{bytes_text(self.parameters)} of parameters; {bytes_text(self.inference)} to predict, "
            f"{bytes_text(self.training)} to train"
        )


def estimate(graph: Graph, *, batch: int) -> Memory:
    """Return the memory that a net takes on torch.

    Args:
        graph: The net, with sizes that are known but for the batch; a value whose size is not counts as 0.
        batch: Records in a batch.
    """
    parameters = sum(4 * parameter.size for parameter in graph.parameters.values())
    inputs = sum(num_bytes(value, batch) for value in graph.inputs)
    inference, training = (
        timeline(prepare(graph, batch=batch, training=mode)).peak for mode in (False, True)
    )
    return Memory(parameters, inputs, parameters + inputs + inference, parameters + inputs + training)
