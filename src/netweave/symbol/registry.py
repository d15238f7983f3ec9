"""The table of MXNet's operators: one reader function each, in ``operators/``, one file per family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.symbol.context import MXNetOperator
    from netweave.symbol.settings import Settings

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
"""Arguments that an operator changes itself: MXNet's auxiliary states."""

COUNT = "num_args"
"""The setting that says how many inputs there are, of operators that take any number."""

Arguments = Callable[["Settings"], Sequence[str] | None]
Count = Callable[["Settings"], int]
Read = Callable[["MXNetOperator"], "ir.Value | Sequence[ir.Value]"]


@dataclass(frozen=True, slots=True)
class OperatorReader:
    """How an operator is read.

    Attributes:
        read: Adds its nodes and returns its outputs.
        arguments: Names of its inputs, given its settings; None for any number of unnamed ones.
        outputs: Names of its outputs where they have some of their own.
        count: Number of its outputs, given its settings.
        counted: Whether the setting ``COUNT`` says how many inputs it has.
    """

    read: Read
    arguments: Arguments | None = None
    outputs: Sequence[str] = ()
    count: Count = lambda settings: 1
    counted: bool = False

    def output_names(self, node: str, count: int) -> list[str]:
        """Return what MXNet calls the outputs of a node that makes ``count`` of them."""
        if self.outputs:
            return [f"{node}_{name}" for name in self.outputs[:count]]
        return [f"{node}_output"] if count == 1 else [f"{node}_output{number}" for number in range(count)]


_READERS: dict[str, OperatorReader] = {}


def operator_reader(
    *names: str,
    arguments: Sequence[str] | Arguments | None = ("data",),
    outputs: Sequence[str] = (),
    count: Count = lambda settings: 1,
    counted: bool = False,
) -> Callable[[Read], Read]:
    """Register the decorated function as the reader of an operator.

    Args:
        names: The operator's name and its aliases in files of every age.
        arguments: Names of its inputs, in order: as a list, as a function of its settings, or None for
            any number.
        outputs: Names of its outputs, if they are not just numbered.
        count: Number of its outputs as a function of its settings; 1 by default.
        counted: Whether the setting ``num_args`` says how many inputs it has.
    """

    def register(read: Read) -> Read:
        named = arguments if arguments is None or callable(arguments) else _fixed(arguments)
        _READERS.update(dict.fromkeys(names, OperatorReader(read, named, outputs, count, counted)))
        return read

    return register


def find_reader(op: str) -> OperatorReader | None:
    """Return the reader of an operator, or None if there is none."""
    return _READERS.get(op)


def all_readers() -> dict[str, OperatorReader]:
    """Return every reader by the operator's name."""
    return dict(sorted(_READERS.items()))


def with_bias(default_no_bias: bool) -> Arguments:
    """Return the arguments of a layer with weights: no ``bias`` where the setting ``no_bias`` is on."""

    def arguments(settings: Settings) -> Sequence[str]:
        no_bias = settings.flag("no_bias", default_no_bias)
        return ("data", "weight") if no_bias else ("data", "weight", "bias")

    return arguments


def _fixed(names: Sequence[str]) -> Arguments:
    def arguments(settings: Settings) -> Sequence[str]:
        return names

    return arguments
