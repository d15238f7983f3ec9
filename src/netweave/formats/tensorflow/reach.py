"""Nodes that some outputs need, functions included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.errors import UnsupportedError
from netweave.formats.tensorflow.attributes import Function
from netweave.formats.tensorflow.frames import FRAME, Frame
from netweave.formats.tensorflow.patterns import simplify

MAX_NODES = 200_000
"""A net with more nodes is refused: functions are written out."""

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from netweave.formats.tensorflow.nodes import Body, Node, Program, Ref


def needed(program: Program, wanted: Sequence[Ref]) -> Iterator[Node]:
    """Yield the nodes that some outputs of the main graph need, each once, in the order of the file.

    Both branches of a condition are needed as long as nobody says which one is taken, so what stands behind
    a Switch is left out.
    """
    bodies: list[tuple[Body, Sequence[Ref]]] = [(program.main, wanted)]
    seen: set[str] = set()
    while bodies:
        body, refs = bodies.pop()
        seen.add(body.name)
        for node in _behind(simplify(body), refs):
            yield node
            for name in _called(node, program):
                reached = program.functions[name]
                if reached.name not in seen:
                    bodies.append((reached, reached.results))


def check_written_out(program: Program) -> None:
    """Refuse functions that call one another so often that a net of them has no end.

    Raises:
        UnsupportedError: There are more than ``MAX_NODES`` nodes when every call is written out.
    """
    sizes: dict[str, int] = {}
    stack = [(name, False) for name in program.functions]
    while stack:
        name, done = stack.pop()
        if name in sizes and not done:
            continue
        nodes = program.functions[name].nodes.values()
        called = [inner for node in nodes for inner in _called(node, program)]
        if done:
            sizes[name] = len(nodes) + sum(sizes[inner] for inner in called)
            if sizes[name] > MAX_NODES:
                raise UnsupportedError(
                    f"the function {name!r} has more than {MAX_NODES:,} nodes when all that it calls is "
                    f"written out",
                    place=program.file,
                )
            continue
        sizes[name] = MAX_NODES  # what a function has that calls itself
        stack.append((name, True))
        stack += [(inner, False) for inner in called if inner not in sizes]


def _behind(body: Body, refs: Sequence[Ref]) -> list[Node]:
    stack, names = [name for name, _ in refs], set()
    entering: set[str] = set()
    while stack:
        name = stack.pop()
        node = body.nodes.get(name)
        if name in names or node is None:
            continue
        names.add(name)
        if node.op not in {"Merge", "RefMerge"}:
            stack += [source for source, _ in node.inputs]
        if isinstance(frame := node.attributes.get(FRAME), Frame):
            stack += [source for source, _ in frame.inner()]
            entering.update(frame.constants)  # its loop reads these for it
    return [node for name, node in body.nodes.items() if name in names - entering]


def _called(node: Node, program: Program) -> list[str]:
    """Return the functions of the net that a node calls: those that it names, or the one that it is."""
    if node.op in {"If", "StatelessIf"}:
        return []  # only one of the branches is read
    named = [value.name for value in node.attributes.values() if isinstance(value, Function)]
    return [name for name in (node.op, *named) if name in program.functions]
