"""The source's own layers: an ordered table beside the nodes.

Layers and nodes are many to many: a data layer has no node, a fused node has several layers. The one
truth about the relation is on the nodes (``layer_keys``); everything else is derived from it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from netweave.graph.naming import free_name

if TYPE_CHECKING:
    import onnx_ir as ir

LAYERS_PROP = "netweave.layers"
"""Metadata key under which a node names its layers, as a JSON list of layer keys."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A place in a source file; ``line`` counts from 1 and is None for binary files."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer as its source wrote it.

    Attributes:
        key: Unique in its table; the name, with ``#n`` added where the source repeats a name.
        name: The source's name.
        type: The source's type (``Convolution``, ``FullyConnected``, ``Conv``).
        settings: The source's settings as written; JSON values only.
        inputs: Names of the graph values that the layer reads, parameters left out.
        outputs: Names of the graph values that the layer makes; a pass may have fused one away.
        parameters: Keys of the stored arrays (``Graph.parameters``) that belong to the layer.
        origin: Where the layer stands in its file.
        call: Which call of a shared or unrolled layer this is, from 0.
        definition: Where the source states its settings, if that is not where the layer stands: the line that
            constructs a module.
        callers: The lines that called the function or class in which the definition stands, and those that
            called these: a setting may be an argument there.
    """

    key: str
    name: str
    type: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    origin: Origin | None = None
    call: int = 0
    definition: Origin | None = None
    callers: tuple[Origin, ...] = ()

    @property
    def place(self) -> str:
        """The place of the layer, for messages: ``net.prototxt:12: layer 'conv1' (Convolution)``."""
        return self.place_at(None)

    def place_at(self, line: int | None) -> str:
        """Return where a line of the layer is; without a line, where the layer itself is."""
        origin = self.origin if line is None or self.origin is None else Origin(self.origin.file, line)
        return f"{f'{origin}: ' if origin else ''}layer {self.name!r} ({self.type})"


class LayerTable(Mapping[str, Layer]):
    """Layers by key, in the order of the source."""

    def __init__(self, layers: Iterable[Layer] = ()) -> None:
        self._layers: dict[str, Layer] = {}
        self._calls: Counter[str] = Counter()
        self._numbers: dict[str, int] = {}
        for layer in layers:
            self.add(layer)

    def add(self, layer: Layer) -> None:
        """Append a layer, or replace the one with the same key in its place."""
        self._layers[layer.key] = layer

    def free_key(self, name: str) -> str:
        """Return ``name``, or ``name#1``, ``name#2``, ... if it is taken."""
        if name not in self._layers:
            return name
        # Keys are never taken out: all numbers before the last that was free are still taken. Counting from 1
        # each time would make a loop that is written out quadratic in its iterations.
        first = self._numbers.get(name, 1)
        key = free_name(name, self._layers, separator="#", first=first)
        self._numbers[name] = int(key.rpartition("#")[2])
        return key

    def new(
        self,
        name: str,
        type_: str,
        settings: Mapping[str, Any],
        *,
        origin: Origin | None,
        outputs: Sequence[str] = (),
    ) -> Layer:
        """Return a layer with a free key, which is not in the table yet; a name again is another call."""
        call = self._calls[name]
        self._calls[name] += 1
        key = self.free_key(name)
        return Layer(key, name, type_, settings, outputs=tuple(outputs), origin=origin, call=call)

    def __getitem__(self, key: str) -> Layer:
        return self._layers[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._layers)

    def __len__(self) -> int:
        return len(self._layers)


def layer_keys(node: ir.Node) -> tuple[str, ...]:
    """Return the keys of the layers that a node belongs to, in the order of the source."""
    text = node.metadata_props.get(LAYERS_PROP)
    return _keys_in(text) if text else ()


@lru_cache(maxsize=1 << 16)
def _keys_in(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def set_layer_keys(node: ir.Node, keys: Iterable[str]) -> None:
    """Say which layers a node belongs to; repeated keys count once."""
    unique = list(dict.fromkeys(keys))
    if unique:
        node.metadata_props[LAYERS_PROP] = json.dumps(unique)
    else:
        node.metadata_props.pop(LAYERS_PROP, None)
