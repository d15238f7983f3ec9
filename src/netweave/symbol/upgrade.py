"""What MXNet changes in a symbol file of an older version when it loads it.

Rules from src/nnvm/legacy_json_util.cc, in their order; pooling is not upgraded there, although its
output sizes changed between 0.7 and 0.9 (see docs/how-to/add-an-mxnet-operator.md).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from netweave.symbol.document import VARIABLE, Document, Entry, Node
from netweave.symbol.registry import READERS
from netweave.symbol.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

HIDDEN = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")
"""Keys of the user that newer files write as ``__key__``."""

MULTIPLIERS = ("lr_mult", "wd_mult")


def upgraded(document: Document) -> Document:
    """Return the net as the newest version of MXNet would load it."""
    nodes = [_hide(node) for node in document.nodes]
    _move_multipliers(nodes)
    if document.version < 905:
        nodes = [_without_last_axis(node) for node in nodes]
    changed = replace(document, nodes=tuple(nodes))
    return _append_missing(changed) if document.version < 900 else changed


def arguments_of(node: Node) -> Sequence[str] | None:
    """Return the names of an operator's inputs; None if it is unknown or takes any number."""
    reader = READERS.get(node.op)
    return reader.argument_names(Settings(node.attributes, place=node.place)) if reader else None


def _hide(node: Node) -> Node:
    hidden = {f"__{key}__" if key in HIDDEN else key: text for key, text in node.attributes.items()}
    return replace(node, attributes=hidden)


def _move_multipliers(nodes: list[Node]) -> None:
    """Give ``weight_lr_mult`` of an operator to its variable ``weight``, as ``__lr_mult__``."""
    for number, node in enumerate(nodes):
        given = [key for key in node.attributes if key.endswith(MULTIPLIERS) and not key.startswith("__")]
        if node.is_variable or not given:
            continue
        kept = dict(node.attributes)
        for entry, name in zip(node.inputs, arguments_of(node) or (), strict=False):
            target = nodes[entry.node]
            moved = {
                f"__{suffix}__": kept.pop(f"{name}_{suffix}")
                for suffix in MULTIPLIERS
                if f"{name}_{suffix}" in kept and target.is_variable
            }
            nodes[entry.node] = replace(target, attributes={**target.attributes, **moved})
        nodes[number] = replace(node, attributes=kept)


def _without_last_axis(node: Node) -> Node:
    """``argmax`` and ``argmin`` over axis -1 meant: over everything."""
    if node.op in {"argmax", "argmin"} and node.attributes.get("axis") == "-1":
        return replace(node, attributes={k: v for k, v in node.attributes.items() if k != "axis"})
    return node


def _append_missing(document: Document) -> Document:
    """Add the variables that old files leave out, such as the moving mean of a BatchNorm."""
    nodes: list[Node] = []
    place: dict[int, int] = {}
    for number, node in enumerate(document.nodes):
        names = arguments_of(node) or ()
        inputs = [Entry(place[entry.node], entry.output) for entry in node.inputs]
        for name in () if node.is_variable else names[len(inputs) :]:
            inputs.append(Entry(len(nodes)))
            nodes.append(Node(f"{node.name}_{name}", VARIABLE, dict(node.attributes), (), node.origin))
        place[number] = len(nodes)
        nodes.append(replace(node, inputs=tuple(inputs)))
    heads = tuple(Entry(place[entry.node], entry.output) for entry in document.heads)
    return replace(document, nodes=tuple(nodes), heads=heads)
