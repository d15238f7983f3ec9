"""What MXNet changes in a symbol file of an older version when it loads it.

Rules from src/nnvm/legacy_json_util.cc, in their order; pooling is not upgraded there, although its
output sizes changed between 0.7 and 0.9 (see docs/how-to/add-an-mxnet-operator.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.symbol.vertex import VARIABLE, Output, Vertex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.symbol.document import Document

HIDDEN = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")
"""Keys of the user that newer files write as ``__key__``."""

MULTIPLIERS = ("lr_mult", "wd_mult")


def upgraded(document: Document) -> Document:
    """Return a net that was just parsed as the newest MXNet would load it; its nodes are changed."""
    nodes = document.nodes
    for node in nodes:
        node.attributes = {
            f"__{key}__" if key in HIDDEN else key: text for key, text in node.attributes.items()
        }
    for node in nodes:
        _move_multipliers(node)
        is_last_axis = node.op in {"argmax", "argmin"} and node.attributes.get("axis") == "-1"
        if document.version < 905 and is_last_axis:
            del node.attributes["axis"]
    if document.version < 900:
        _append_missing(nodes)
    return document


def _move_multipliers(node: Vertex) -> None:
    """Give ``weight_lr_mult`` of an operator to its variable ``weight``, as ``__lr_mult__``."""
    given = [key for key in node.attributes if key.endswith(MULTIPLIERS) and not key.startswith("__")]
    if node.is_variable or not given:
        return
    for (target, _), name in zip(node.inputs, node.argument_names() or (), strict=False):
        for suffix in MULTIPLIERS:
            if f"{name}_{suffix}" in node.attributes and target.is_variable:
                target.attributes[f"__{suffix}__"] = node.attributes.pop(f"{name}_{suffix}")


def _append_missing(nodes: Sequence[Vertex]) -> None:
    """Add the variables of inputs that files before 0.9 leave out: statistics, mostly."""
    for node in nodes:
        missing = () if node.is_variable else (node.argument_names() or ())[len(node.inputs) :]
        for name in missing:
            added = Vertex(f"{node.name}_{name}", VARIABLE, dict(node.attributes), (), node.origin)
            node.inputs += (Output(added),)
