"""The arrays of variables: which key of a checkpoint is whose, and what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.errors import WeightError
from netweave.formats.lowering.channels_last import Stored
from netweave.graph.wording import names_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netweave.formats.tensorflow.bundle import Bundle
    from netweave.formats.tensorflow.nodes import Body, Node, Program, Ref

ASSIGN = frozenset({"AssignVariableOp", "Assign"})


class Variables:
    """Gives the array of a variable by the name of its node.

    Args:
        program: The net; what it does to restore a checkpoint says which key is whose.
        bundle: The checkpoint; without one the arrays are drawn.
    """

    def __init__(self, program: Program, bundle: Bundle | None) -> None:
        self._program = program
        self._bundle = bundle
        self._keys = restored_keys(program) if bundle is not None else {}
        self._made: dict[str, Stored] = {}

    def value(self, name: str, place: str) -> Stored:
        """Return the array of a variable.

        Raises:
            WeightError: The checkpoint does not hold it, or holds another size.
        """
        if name not in self._made:
            self._made[name] = self._make(name, place)
        return self._made[name]

    def _make(self, name: str, place: str) -> Stored:
        node = self._program.main.nodes.get(name)
        declared = node.attributes.get("shape") if node else None
        if self._bundle is None:
            if declared is None or None in declared:
                raise WeightError(f"the variable {name!r} has neither values nor sizes", place=place)
            return Stored.parameter(name, None, tuple(declared))
        key = self._keys.get(name, name)
        if key not in self._bundle:
            raise WeightError(
                f"does not contain the variable {name!r}"
                + (f" under the key {key!r}" if key != name else "")
                + f"; it contains {names_text(self._bundle.keys(), most=3)}",
                place=self._bundle.file,
            )
        array = self._bundle.array(key)
        if declared is not None and not _fits(array.shape, declared):
            raise WeightError(
                f"contains {key!r} with the shape {list(array.shape)}, expected {list(declared)}",
                place=self._bundle.file,
            )
        return Stored.parameter(name, array, array.shape)


def _fits(shape: tuple[int, ...], declared: tuple[int | None, ...]) -> bool:
    return len(shape) == len(declared) and all(
        b is None or a == b for a, b in zip(shape, declared, strict=True)
    )


def restored_keys(program: Program) -> dict[str, str]:
    """Return the key in a checkpoint of each variable, as the net's own restoring says it.

    ``RestoreV2`` reads a list of keys; its outputs are assigned to variables, in the main graph or in a
    function that is given them.
    """
    keys = _assigned(program.main, {})
    for node in program.main.nodes.values():
        function = node.attributes.get("f")
        body = program.functions.get(getattr(function, "name", ""))
        if body is not None and any(inner.op == "RestoreV2" for inner in body.nodes.values()):
            given = {name: ref[0] for name, ref in zip(body.arguments, node.inputs, strict=False)}
            keys |= _assigned(body, given)
    return keys


def _assigned(body: Body, given: Mapping[str, str]) -> dict[str, str]:
    keys = {}
    for node in body.nodes.values():
        if node.op in ASSIGN and len(node.inputs) > 1:
            key = _key(node.inputs[1], body)
            name = node.inputs[0][0]
            if key is not None:
                keys[given.get(name, name)] = key
    return keys


def _key(ref: Ref, body: Body) -> str | None:
    """Return the key that a value was restored from."""
    node = body.nodes.get(ref[0])
    while node is not None and node.op in {"Identity", "Cast", "Reshape"} and node.inputs:
        ref = node.inputs[0]
        node = body.nodes.get(ref[0])
    if node is None or node.op != "RestoreV2" or len(node.inputs) < 2:
        return None
    keys = _strings(body.nodes.get(node.inputs[1][0]))
    return keys[ref[1]] if ref[1] < len(keys) else None


def _strings(node: Node | None) -> list[str]:
    value = node.attributes.get("value") if node is not None else None
    if not isinstance(value, np.ndarray) or value.dtype != object:
        return []
    return [item.decode("utf-8", "backslashreplace") for item in value.reshape(-1)]
