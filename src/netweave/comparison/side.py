"""One net of a pair, with everything that a comparison knows of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from netweave.comparison.signals import Signals
from netweave.comparison.values import HeldValues

if TYPE_CHECKING:
    from collections.abc import Callable

    import onnx_ir as ir

    from netweave.comparison.align.alignment import SignalPair
    from netweave.comparison.values import SignalValues
    from netweave.graph import Graph


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One net of a pair: as it was read, as it is compared, what it computed, and what it is paired with.

    Attributes:
        name: ``A`` for the net that is taken for right, ``B`` for its port.
        source: The net as it was read.
        signals: Its signals, in the form and at the sizes that are compared.
        tensors: What it computes on the probe, by signal: nothing before it is run, and its inputs alone if
            it cannot be run. A large one may be computed when it is looked up, so ask for its shape alone
            where that is enough, and for tensors in the order of the net.
        own_values: Returns what it computes on inputs of its own, if it cannot be run on the other net's.
        pairs: Pairs of an alignment by this side's signal; the alignment adds to it.
        partners: The other side's node by ``id`` of this side's; likewise.
    """

    name: str
    source: Graph
    signals: Signals
    tensors: SignalValues = field(default_factory=lambda: HeldValues({}))
    own_values: Callable[[], SignalValues] | None = None
    pairs: dict[str, SignalPair] = field(default_factory=dict)
    partners: dict[int, ir.Node] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, source: Graph, form: Callable[[Graph], Graph]) -> Side:
        """Return a net in the form in which it is compared."""
        return cls(name, source, Signals.of(form(source)))

    @property
    def graph(self) -> Graph:
        """The net in the form and at the sizes that are compared."""
        return self.signals.graph

    @property
    def is_a(self) -> bool:
        """True if it is the net that is taken for right."""
        return self.name == "A"

    @property
    def other_name(self) -> str:
        """The name of the other side."""
        return "B" if self.is_a else "A"

    def with_graph(self, graph: Graph) -> Side:
        """Return the side with another form of its net, at other sizes for instance."""
        return self if graph is self.graph else replace(self, signals=Signals.of(graph))

    def with_tensors(self, tensors: SignalValues) -> Side:
        """Return the side with what its net computes; what it is paired with stays shared."""
        return replace(self, tensors=tensors)

    def unpaired(self) -> Side:
        """Return the side as no alignment has seen it yet."""
        return replace(self, pairs={}, partners={})

    def is_paired(self, node: ir.Node) -> bool:
        """Return whether the other side has a counterpart of a node."""
        return id(node) in self.partners
