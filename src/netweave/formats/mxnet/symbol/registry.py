"""The table of MXNet's operators: one reader function each, in ``operators/``, one file per family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.formats.lowering import RuleTable

if TYPE_CHECKING:
    from netweave.formats.mxnet.symbol.context import MXNetOperator
    from netweave.formats.mxnet.symbol.settings import Settings

ROLES = {
    "weight": "weight",
    "bias": "bias",
    "gamma": "gamma",
    "beta": "beta",
    "moving_mean": "mean",
    "moving_var": "variance",
    "parameters": "weight",
}
"""Arguments that are stored arrays, and the role that ``Parameter`` gives them."""

AUXILIARY = frozenset({"moving_mean", "moving_var"})
"""Arguments that an operator of MXNet's own changes itself: auxiliary states."""

COUNT = "num_args"
"""The setting that says how many inputs there are, of operators that take any number."""

Arguments = Callable[["Settings"], Sequence[str]]
Count = Callable[["Settings"], int]
Read = Callable[["MXNetOperator"], "ir.Value | Sequence[ir.Value]"]


@dataclass(frozen=True, slots=True)
class OperatorReader:
    """Reader of an operator type.

    Attributes:
        read: Adds its nodes and returns its outputs.
        arguments: Names of its inputs, in order: as a list, as a function of its settings, or None for any
            number of unnamed ones.
        outputs: Names of its outputs, if they are not just numbered.
        count: Number of its outputs, given its settings.
        counted: Whether the setting ``COUNT`` says how many inputs it has.
        states: Names of the inputs that it changes itself, given its settings.
    """

    read: Read
    arguments: Sequence[str] | Arguments | None = ("data",)
    outputs: Sequence[str] = ()
    count: Count = lambda settings: 1
    counted: bool = False
    states: Arguments = lambda settings: tuple(AUXILIARY)

    def argument_names(self, settings: Settings) -> Sequence[str] | None:
        """Return the names of its inputs, None for any number of unnamed ones."""
        return self.arguments(settings) if callable(self.arguments) else self.arguments

    def output_names(self, node: str, count: int) -> list[str]:
        """Return what MXNet calls the outputs of a node that makes ``count`` of them."""
        if self.outputs:
            return [f"{node}_{name}" for name in self.outputs[:count]]
        return [f"{node}_output"] if count == 1 else [f"{node}_output{number}" for number in range(count)]


READERS: RuleTable[Read, OperatorReader] = RuleTable(OperatorReader)
"""The readers by the operator's name and its aliases in files of every age."""

operator_reader = READERS.register


def with_bias(default_no_bias: bool) -> Arguments:
    """Return the arguments of a layer with weights: no ``bias`` where the setting ``no_bias`` is on."""

    def arguments(settings: Settings) -> Sequence[str]:
        no_bias = settings.flag("no_bias", default_no_bias)
        return ("data", "weight") if no_bias else ("data", "weight", "bias")

    return arguments
