"""Removing what no output needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.graph import effects_of
from netweave.graph.passes.rewrite import Pass, drop_initializers, remove_unneeded, unused_initializers

if TYPE_CHECKING:
    from netweave.graph import Graph


@Pass
def prune(graph: Graph) -> None:
    """Remove nodes and initializers that no output needs; inputs stay, and so do nodes with effects.

    Layers whose nodes are gone stay in the table, without nodes; stored arrays stay in theirs, since
    the source counts them.
    """
    remove_unneeded(graph, keep=lambda node: bool(effects_of(node)))
    drop_initializers(graph, unused_initializers(graph))
