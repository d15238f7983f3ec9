"""Loops of TensorFlow 1 (``tf.while_loop``, ``dynamic_rnn``), as one node each.

A loop is a frame: ``Enter`` brings values in, ``Merge`` joins each with what ``NextIteration`` brings back,
``LoopCond`` asks whether to go on, ``Switch`` sends each value into the body or to ``Exit``
(``control_flow_ops``, "Implementation of Control Flow in TensorFlow"). Here the ``LoopCond`` becomes a node
that reads what enters, and every ``Exit`` a copy of one of its outputs; the nodes between them are read
again for every iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netweave.formats.tensorflow.nodes import Node, Ref

ENTER = frozenset({"Enter", "RefEnter"})
EXIT = frozenset({"Exit", "RefExit"})
NEXT = frozenset({"NextIteration", "RefNextIteration"})
MERGE = frozenset({"Merge", "RefMerge"})
SWITCH = frozenset({"Switch", "RefSwitch"})

FRAME = "_frame"
"""The attribute that holds the frame of a loop's node."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The parts of one loop.

    Attributes:
        merges: Names of the nodes that hold the loop's values at the begin of an iteration.
        switches: For each of them the nodes that send it into the body.
        constants: Names of the ``Enter`` of what is the same in every iteration.
        condition: Whether to go on.
        following: What each value is in the next iteration.
    """

    merges: tuple[str, ...]
    switches: tuple[tuple[str, ...], ...]
    constants: tuple[str, ...]
    condition: Ref
    following: tuple[Ref, ...]

    def inner(self) -> tuple[Ref, ...]:
        """Return what is computed in every iteration."""
        return (self.condition, *self.following)


def join_frames(nodes: dict[str, Node]) -> None:
    """Make every loop one node, in place; what has not the form of a loop stays as it is."""
    conditions = [node for node in nodes.values() if node.op == "LoopCond"]
    if not conditions:
        return
    switches: dict[str, list[Node]] = {}
    merges: dict[str, list[tuple[Node, Node, Node]]] = {}
    for node in nodes.values():
        if node.op in SWITCH and len(node.inputs) == 2:
            switches.setdefault(node.inputs[1][0], []).append(node)
        elif node.op in MERGE and (both := _both(node, nodes)) is not None:
            merges.setdefault(_frame_of(both[0]), []).append((node, *both))
    for condition in conditions:
        _join(condition, nodes, switches.get(condition.name, []), merges)


def _join(
    condition: Node,
    nodes: dict[str, Node],
    switches: list[Node],
    merges: Mapping[str, list[tuple[Node, Node, Node]]],
) -> None:
    by_merge: dict[str, list[str]] = {}
    for switch in switches:
        by_merge.setdefault(switch.inputs[0][0], []).append(switch.name)
    name = next(
        (frame for frame, rows in merges.items() if any(m.name in by_merge for m, _, _ in rows)), None
    )
    if name is None or not condition.inputs:
        return
    rows = merges[name]
    constants = [
        node for node in _entering(nodes, name) if all(node.name != enter.name for _, enter, _ in rows)
    ]
    frame = Frame(
        tuple(merge.name for merge, _, _ in rows),
        tuple(tuple(by_merge.get(merge.name, ())) for merge, _, _ in rows),
        tuple(node.name for node in constants),
        condition.inputs[0],
        tuple(back.inputs[0] for _, _, back in rows),
    )
    entering = (*(enter.inputs[0] for _, enter, _ in rows), *(node.inputs[0] for node in constants))
    nodes[condition.name] = replace(condition, inputs=entering, attributes={FRAME: frame})
    places = {switch: place for place, names in enumerate(frame.switches) for switch in names}
    for node in list(nodes.values()):
        if node.op in EXIT and node.inputs and node.inputs[0][0] in places:
            read = (condition.name, places[node.inputs[0][0]])
            nodes[node.name] = replace(node, op="Identity", inputs=(read,))


def _both(merge: Node, nodes: Mapping[str, Node]) -> tuple[Node, Node] | None:
    """Return the Enter and the NextIteration of a loop's Merge, None for one that joins branches."""
    read = [nodes.get(name) for name, _ in merge.inputs]
    enter = next((node for node in read if node is not None and node.op in ENTER and node.inputs), None)
    back = next((node for node in read if node is not None and node.op in NEXT and node.inputs), None)
    return (enter, back) if enter is not None and back is not None and len(read) == 2 else None


def _entering(nodes: Mapping[str, Node], frame: str) -> Iterator[Node]:
    return (n for n in nodes.values() if n.op in ENTER and n.inputs and _frame_of(n) == frame)


def _frame_of(enter: Node) -> str:
    name = enter.attributes.get("frame_name", b"")
    return name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else str(name)
