"""The calls of a model's layers in an order in which each finds its tensors made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.errors import ReadError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.formats.keras.config import LayerConfig, Model, Ref

Call = tuple["LayerConfig", int]


def calls_in_order(model: Model, given: Sequence[Ref], *, place: str) -> list[Call]:
    """Return the calls that the model's outputs need, each after those that make its tensors.

    Args:
        model: The model.
        given: Tensors that are there already: its inputs.
        place: Name of the file, for errors.

    Raises:
        ReadError: A tensor is read that nothing makes, or one that follows from itself.
    """
    layers = {layer.name: layer for layer in model.layers}
    there = {(name, call) for name, call, _ in given}
    order: list[Call] = []
    running: set[tuple[str, int]] = set()
    stack = [((name, call), False) for name, call, _ in reversed(model.outputs)]
    while stack:
        key, done = stack.pop()
        name, number = key
        if done:
            order.append((layers[name], number))
            there.add(key)
            continue
        if key in there:
            continue
        layer = layers.get(name)
        if layer is None or not 0 <= number < len(layer.calls):
            raise ReadError(
                f"the model has no call {number} of the layer {name!r}, but reads its output", place=place
            )
        running.add(key)
        stack.append((key, True))
        for source in reversed(layer.calls[number].tensors()):
            before = (source[0], source[1])
            if before in running and before not in there:
                raise ReadError(f"the layer {name!r} depends on its own output", place=place)
            if before not in there:
                stack.append((before, False))
    return order
