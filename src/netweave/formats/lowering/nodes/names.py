"""Names of operators, and settings of our own ones, as a framework that a node is written for has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.formats.lowering.activations import ONNX_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from netweave.files.node_writer import GraphNode


def by_operator(names: Iterable[str]) -> dict[str, str]:
    """Return a framework's functions of each element by ONNX's operator, from the readers' own table.

    Args:
        names: What the framework calls its functions; a module in front of a name does not count.

    >>> by_operator(["TanH", "BNLL", "torch.abs"])
    {'Tanh': 'TanH', 'Softplus': 'BNLL', 'Abs': 'torch.abs'}
    """
    return {ONNX_NAMES[name.rpartition(".")[2].replace("_", "").lower()]: name for name in names}


_FLAGS = frozenset({"clip", "force_suppress", "iou_loss"})
"""Attributes of detection operators that are True or False; ONNX has numbers for them."""


def plain_settings(node: GraphNode) -> dict[str, Any]:
    """Return the attributes of an operator that ONNX lacks as Python values: flags, tuples and the rest."""
    return {
        name: bool(value) if name in _FLAGS else tuple(value) if isinstance(value, list | tuple) else value
        for name, value in node.attributes.items()
    }
