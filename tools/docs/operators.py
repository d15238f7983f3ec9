"""The page of operators, from the registry and from the table of torch's lowerings."""

from __future__ import annotations

import onnx

from netweave.formats.onnx.functions import why_without
from netweave.graph import OPSET, all_operators
from netweave.runtime.backends.torch import Lowering, all_lowerings

INTRODUCTION = f"""\
# Operators

Generated from the table of torch's lowerings and from the registry of the domain `netweave`
(`python -m tools.docs`). ONNX Runtime and OpenVINO run the standard operators that they have; for those of
the domain `netweave` they take the registry's own forward.

A graph is written in ONNX's opset {OPSET}. "From" is the version of the operator from which on a lowering
holds; the newest one that is not above the graph's is taken. To add a lowering see the head of
`src/netweave/runtime/backends/torch/operator_table.py`, to add an operator that of
`src/netweave/graph/operators.py`."""

NETWEAVE = """\
## The domain netweave

What the frameworks have and ONNX lacks. A gradient of its own is one that the source defines and that is not
that of what the operator computes, or one that the registry has so that it can be checked. An ONNX file holds
a function for an operator where standard ONNX can say what it does, so that other runtimes run the file."""

STANDARD = """\
## Standard operators on torch

Gradients are torch's, checked against finite differences."""

MISSING = f"""\
## Standard operators without a lowering

ONNX Runtime runs them, torch does not. They work on sequences, optional values, strings or images as bytes,
hold graphs of their own, or are rare: say so if you need one. (Opset {OPSET}.)"""


def page() -> str:
    """Return the page."""
    rows: dict[str, list[Lowering]] = {}
    for row in all_lowerings():
        if not row.domain:
            rows.setdefault(row.op_type, []).append(row)
    own = [
        f"{name} | {'its own' if entry.gradient else 'of the forward'} | "
        f"{', '.join(sorted(effect.value for effect in entry.effects)) or '-'} | "
        f"{_in_files(name)} | {_code(entry.source)}"
        for name, entry in all_operators().items()
    ]
    standard = [
        f"{name} | {', '.join(str(row.since) for row in found)} | {_place(found[-1])} | {_meaning(found[-1])}"
        for name, found in rows.items()
    ]
    missing = sorted(_standard() - set(rows) - {"Constant"})
    return "\n\n".join(
        [
            INTRODUCTION,
            NETWEAVE,
            _table("operator | gradient | effects | in ONNX files | source of the rule", own),
            STANDARD,
            _table("operator | from | file | what it does", standard),
            MISSING,
            f"{', '.join(missing)}.\n",
        ]
    )


def _table(head: str, rows: list[str]) -> str:
    return "\n".join(f"| {row} |" for row in [head, " | ".join(["---"] * (head.count("|") + 1)), *rows])


def _in_files(name: str) -> str:
    reason = why_without(name)
    return "a function" if reason is None else f"as it is: {reason}"


def _place(row: Lowering) -> str:
    module = row.function.__module__ or "torch"
    return f"`{module.rsplit('.', 1)[1]}.py`" if module.startswith("netweave.") else "torch itself"


def _meaning(row: Lowering) -> str:
    if _place(row) == "torch itself":
        return f"`torch.{row.function.__name__}`"
    summary = (row.function.__doc__ or "").strip().split("\n\n")[0]
    return _code(" ".join(summary.split()))


def _code(text: str) -> str:
    return text.replace("``", "`")


def _standard() -> set[str]:
    """Return the names of the standard operators of Netweave's opset."""
    names = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain}
    known = {name for name in names if onnx.defs.has(name, max_inclusive_version=OPSET)}
    return {name for name in known if not onnx.defs.get_schema(name, OPSET).deprecated}
