"""Nets built in Python, as in MXNet: symbols, operators, and the Graph that they define.

``from netweave import symbol as sym``; every operator of the table is a function here:
``sym.FullyConnected(data, num_hidden=10, name="fc")``.

The way of the data: a ``symbol.Symbol`` is some outputs of nodes (``vertex``); ``document`` has the nodes as
files do, ``upgrade`` does to old ones what MXNet does, ``build`` walks them and calls, for each, its function
in ``operators/`` with a ``call.Call``; ``variables`` gives stored arrays and inputs, with their
sizes. To add an operator see docs/how-to/add-an-mxnet-operator.md.
"""

from __future__ import annotations

from collections.abc import Callable

from netweave.formats.mxnet.symbol.registry import READERS
from netweave.formats.mxnet.symbol.symbol import (
    Initializer,
    Symbol,
    arange,
    from_json,
    full,
    group,
    hypot,
    load,
    maximum,
    minimum,
    ones,
    operator_function,
    pow,  # noqa: A004
    variable,
    zeros,
)
from netweave.formats.mxnet.symbol.vertex import AttrScope, NameManager, Prefix

Variable = var = variable
Group = group
load_json = from_json
# the names that MXNet gives them

__all__ = [
    "AttrScope",
    "Group",
    "Initializer",
    "NameManager",
    "Prefix",
    "Symbol",
    "Variable",
    "arange",
    "from_json",
    "full",
    "group",
    "hypot",
    "load",
    "load_json",
    "maximum",
    "minimum",
    "ones",
    "operator_function",
    "pow",
    "var",
    "variable",
    "zeros",
]


def __getattr__(name: str) -> Callable[..., Symbol]:
    """Return the function of an operator."""
    if name.startswith("__") or name not in READERS:
        raise AttributeError(f"module {__name__!r} has no operator {name!r}")
    return operator_function(name)


def __dir__() -> list[str]:
    return sorted([*globals(), *READERS])
