"""The name of an operator in a framework that a node is written for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.lowering.activations import ONNX_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable


def by_operator(names: Iterable[str]) -> dict[str, str]:
    """Return a framework's functions of each element by ONNX's operator, from the readers' own table.

    Args:
        names: What the framework calls its functions; a module in front of a name does not count.

    >>> by_operator(["TanH", "BNLL", "torch.abs"])
    {'Tanh': 'TanH', 'Softplus': 'BNLL', 'Abs': 'torch.abs'}
    """
    return {ONNX_NAMES[name.rpartition(".")[2].replace("_", "").lower()]: name for name in names}
