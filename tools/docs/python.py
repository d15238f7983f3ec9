"""The reference of the Python API, from docstrings and signatures."""

from __future__ import annotations

import inspect
from typing import Any

import netweave
from netweave import api, errors
from netweave.comparison import Comparison, Evidence, Finding, Group, Status, TensorMapping, Verdict
from netweave.graph import Graph, Layer, LayerTable, Parameter
from netweave.runtime.backends.selection import BackendTrial
from tools.docs.docstrings import markdown, signature

FUNCTIONS = (
    netweave.load,
    netweave.compare,
    netweave.run,
    netweave.prepare,
    netweave.save,
    netweave.train,
    netweave.pack,
)
OPTIONS = (netweave.CompareOptions, netweave.TrainOptions, netweave.PackOptions)
MORE = (api.to_inference, api.save_page, api.load_arrays, api.save_arrays, api.draw_inputs)
RESULTS = (Comparison, Verdict, Group, Status, Evidence, Finding, TensorMapping)
NETS = (Graph, LayerTable, Layer, Parameter)
PREPARED = (netweave.PreparedNet, BackendTrial)


def page() -> str:
    """Return the page."""
    from netweave import exact  # which needs torch; whoever only looks at another page may have none

    parts = [
        "# The Python API",
        "Generated from the docstrings. `import netweave` is light: it loads no framework and no runtime "
        "until something is read.",
        *map(_function, FUNCTIONS),
        "# Options\n\nOf `compare`, `train` and `pack`, which also take each of them by name.",
        *map(_class, OPTIONS),
        "# More functions\n\nIn `netweave.api`.",
        *map(_function, MORE),
        "# A net\n\nIn `netweave.graph`.",
        *map(_class, NETS),
        "# A prepared net\n\nWhat `prepare` returns.",
        *map(_class, PREPARED),
        "# The same bits for a PyTorch loop\n\nIn `netweave.exact`.",
        *map(_class, (exact.Exchange, exact.Checkpoint)),
        _function(exact.sampler),
        "# A comparison\n\nIn `netweave.compare`.",
        *map(_class, RESULTS),
        "# Errors\n\nIn `netweave.errors`.",
        f"```text\n{inspect.getdoc(errors)}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _function(function: Any) -> str:
    return f"## {function.__name__}\n\n```python\n{signature(function)}\n```\n\n{markdown(function)}"


def _class(kind: type) -> str:
    parts = [f"## {kind.__name__}", markdown(kind)]
    if hasattr(kind, "__members__"):
        parts.append("\n".join(f"- `{name}`: {member.value}" for name, member in kind.__members__.items()))
    for name, member in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            parts.append(f"### {kind.__name__}.{name}\n\n{markdown(member)}")
        elif inspect.isfunction(member):
            parts.append(f"### {kind.__name__}.{signature(member)}\n\n{markdown(member)}")
    return "\n\n".join(parts)
