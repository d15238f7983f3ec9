"""Outputs of a graph that does not name them: the ends that its inputs and weights lead to.

Training, saving and summaries are cut off first, and so is all that follows from a loss or from a label: a
net is read as it predicts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from netweave.errors import ReadError
from netweave.formats.tensorflow.frames import EXIT
from netweave.formats.tensorflow.inputs import PLACEHOLDERS

if TYPE_CHECKING:
    from netweave.formats.tensorflow.nodes import Node, Program, Ref

LOSSES = frozenset(
    {
        "SoftmaxCrossEntropyWithLogits",
        "SparseSoftmaxCrossEntropyWithLogits",
        "L2Loss",
        "InTopK",
        "InTopKV2",
        "CTCLoss",
    }
)
"""Operators that judge a prediction; neither they nor what follows from them is an output."""

IDLE = frozenset({"NoOp", "Const", "Assert", "RestoreV2", "SaveV2", "ShardedFilename", "MergeV2Checkpoints"})
"""Operators that are no output."""

SIZES = frozenset({"Shape", "ShapeN", "Size", "Rank"})
"""Operators whose results say nothing of the values that they read."""

VIEWS = frozenset({"Cast", "ExpandDims", "Identity", "Reshape", "Squeeze", "StopGradient"})
"""Operators that bring a tensor into form for a loss."""

_WRITES = re.compile(
    r"(Resource|Sparse)?Apply|Assign|^(Resource)?Scatter(Nd)?(Add|Div|Max|Min|Mul|Sub|Update)|Summary|^Save|^Restore"
    r"|IsVariableInitialized"
)
_TRAINING = re.compile(r"(^|/)(gradients(_\d+)?|save(_\d+)?|Initializer|report_uninitialized_variables)/")

WEIGHTS = frozenset({"VariableV2", "Variable", "VarHandleOp", "AutoReloadVariable"})


def find_outputs(program: Program) -> list[Ref]:
    """Return the outputs of a main graph that no signature describes.

    Raises:
        ReadError: There is none.
    """
    nodes = [node for node in program.main.nodes.values() if not _is_training(node)]
    names = {node.name for node in nodes}
    fed = _reached(nodes, lambda node: node.op in PLACEHOLDERS or node.op == "PlaceholderWithDefault")
    judged = _with_views(nodes, _reached(nodes, lambda node: node.op in LOSSES))
    weighted = _reached(nodes, _has_weights)
    live = [node for node in nodes if node.name in fed and node.name not in judged and node.op not in IDLE]
    read = {ref[0] for node in live for ref in node.inputs}
    ends = [node for node in live if node.name not in read and node.op not in PLACEHOLDERS]
    ends = [node for node in ends if node.op != "PlaceholderWithDefault" and node.name in names]
    ends = [node for node in ends if node.op not in EXIT] or ends  # a loop gives all that it keeps
    best = [node for node in ends if node.name in weighted] or ends
    if not best:
        raise ReadError(
            "found no outputs: no node that depends on a placeholder is left after training, losses and "
            "saving are removed; save the net with a signature, or frozen up to its output",
            place=program.file,
        )
    return [(node.name, 0) for node in best]


def _with_views(nodes: list[Node], judged: set[str]) -> set[str]:
    """Return the nodes that follow from a loss, and those that only bring tensors into form for them."""
    readers: dict[str, set[str]] = {}
    for node in nodes:
        for name, _ in node.inputs:
            readers.setdefault(name, set()).add(node.name)
    judging = set(judged)
    stack = [node for node in nodes if node.op in VIEWS]
    for node in reversed(stack):  # a file lists nodes after those that they read, or nearly so
        if readers.get(node.name) and readers[node.name] <= judging:
            judging.add(node.name)
    return judging


def _is_training(node: Node) -> bool:
    return bool(_WRITES.search(node.op)) or bool(_TRAINING.search(node.name))


def _has_weights(node: Node) -> bool:
    value = node.attributes.get("value")
    return node.op in WEIGHTS or (node.op == "Const" and getattr(value, "size", 0) > 1)


def _reached(nodes: list[Node], start: object) -> set[str]:
    """Return the names of the nodes that hold, and of all that follows from them."""
    assert callable(start)
    readers: dict[str, list[str]] = {}
    for node in nodes:
        for name, _ in node.inputs if node.op not in SIZES else ():
            readers.setdefault(name, []).append(node.name)
    stack = [node.name for node in nodes if start(node)]
    reached = set(stack)
    while stack:
        for name in readers.get(stack.pop(), ()):
            if name not in reached:
                reached.add(name)
                stack.append(name)
    return reached
