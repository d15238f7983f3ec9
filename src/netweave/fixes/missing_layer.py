"""A layer that only A has, copied into B's text where both are written in the same format.

Layers of Caffe that work in place, with the same blob at bottom and top, can be put in alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.fixes.prototxt import find_layers
from netweave.fixes.text import NotAppliedError, Replacement, line_end, replaced

if TYPE_CHECKING:
    from netweave.fixes.prototxt import LayerText


def copy_layer(text_a: str, text_b: str, name: str) -> str:
    """Return B's text with a layer of A put behind the layer that it follows in A.

    Raises:
        NotAppliedError: The layer does not work in place, or B does not have the layer that it follows.
    """
    layers_a, layers_b = find_layers(text_a), find_layers(text_b)
    place = next((n for n, layer in enumerate(layers_a) if layer.name == name), None)
    if place is None:
        raise NotAppliedError(f"the first net's file has no layer {name!r}")
    layer = layers_a[place]
    if len(layer.bottoms) != 1 or layer.bottoms != layer.tops:
        raise NotAppliedError(f"{name} does not work in place, so that other layers would have to change too")
    if any(other.name == name for other in layers_b):
        raise NotAppliedError(f"the file has another layer called {name!r}")
    before = next((other for other in layers_a[:place][::-1] if layer.bottoms[0] in other.tops), None)
    host = _counterpart(before, layers_b, layer.bottoms[0])
    block = text_a[layer.start : layer.end].replace("\r\n", "\n").replace("\n", line_end(text_b))
    return replaced(text_b, [Replacement(host.end, host.end, line_end(text_b) + block)])


def _counterpart(before: LayerText | None, layers: list[LayerText], blob: str) -> LayerText:
    """Return B's layer of the same name that makes the same blob."""
    names = {before.name} if before is not None else set()
    found = next((layer for layer in layers if layer.name in names and blob in layer.tops), None)
    if found is None:
        raise NotAppliedError(f"the file has no layer that makes {blob!r} as the first net's does")
    return found
