"""Channels of a net that must be kept or pruned together.

Every convolution makes channels of its own. A sum (``[shortcut]``) ties those of its inputs together, place
by place; what is joined (``[route]``), scaled up or pooled keeps them. A channel that something else reads,
whose weights are not cut here, is fixed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from netweave.errors import ReadError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.formats.darknet.config import Section
    from netweave.graph import Graph

KEEPING = frozenset({"upsample", "dropout", "maxpool", "max", "activation", "empty", "silence"})
"""Types of layers that do the same to each channel, by itself."""

CONVOLUTIONS = frozenset({"convolutional", "conv"})


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution whose channels are known.

    Attributes:
        index: Number of the layer.
        key: Its key in the graph.
        inputs: Its input channels.
        outputs: Its output channels.
        groups: As in the file.
        taps: Elements of a filter for one channel.
        places: Elements of an output channel.
        normalised: Whether it has scales.
    """

    index: int
    key: str
    inputs: np.ndarray
    outputs: np.ndarray
    groups: int
    taps: int
    places: int
    normalised: bool

    @property
    def is_depthwise(self) -> bool:
        """True if each output channel reads the input channel of the same number, and no other."""
        return self.groups > 1 and self.groups == len(self.inputs) == len(self.outputs)


@dataclass(slots=True)
class Channels:
    """The channels of a net by number.

    Attributes:
        convolutions: In the order of the layers.
    """

    convolutions: list[Convolution] = field(default_factory=list)
    _parent: list[int] = field(default_factory=list)
    _fixed: set[int] = field(default_factory=set)

    @property
    def count(self) -> int:
        """Number of channels."""
        return len(self._parent)

    def new(self, count: int, *, fixed: bool = False) -> np.ndarray:
        """Return channels that were not there before."""
        numbers = np.arange(len(self._parent), len(self._parent) + count)
        self._parent += numbers.tolist()
        if fixed:
            self.fix(numbers)
        return numbers

    def fix(self, numbers: np.ndarray) -> None:
        """Let channels stay, whatever their scales are."""
        self._fixed |= set(numbers.tolist())

    def tie(self, some: np.ndarray, others: np.ndarray) -> None:
        """Make channels stand and fall together, as far as both go."""
        for one, other in zip(some.tolist(), others.tolist(), strict=False):
            self._parent[self.root(one)] = self.root(other)

    def root(self, number: int) -> int:
        """Return the number by which all channels go that are tied to one."""
        while self._parent[number] != number:
            self._parent[number] = self._parent[self._parent[number]]
            number = self._parent[number]
        return number

    def roots(self, numbers: np.ndarray) -> np.ndarray:
        """Return the root of each channel."""
        return np.array([self.root(number) for number in numbers.tolist()], np.int64)

    def fixed_roots(self) -> set[int]:
        """Return the roots of the channels that stay."""
        return {self.root(number) for number in self._fixed}


def trace(sections: Sequence[Section], graph: Graph) -> Channels:
    """Return the channels of a net.

    Args:
        sections: The layers, without ``[net]``.
        graph: The same net, which knows sizes.
    """
    tracer = _Tracer(Channels(), graph)
    for index, section in enumerate(sections):
        tracer.outputs.append(tracer.layer(section, index))
    tracer.channels.fix(tracer.outputs[-1])
    return tracer.channels


class _Tracer:
    """Walks over the layers.

    Attributes:
        channels: What was found.
        outputs: The channels of the net's input, and of each layer.
    """

    def __init__(self, channels: Channels, graph: Graph) -> None:
        self.channels, self._graph = channels, graph
        self.outputs = [channels.new(int(graph.inputs[0].shape[1]), fixed=True)]  # type: ignore[index,arg-type]  # a cfg says the channels of its input

    def layer(self, section: Section, index: int) -> np.ndarray:
        """Return the channels of a layer's output."""
        before = self.outputs[-1]
        if section.type in CONVOLUTIONS:
            return self._convolution(section, index)
        if section.type in KEEPING and len(before) == self._count(section, index):
            return before
        if section.type == "shortcut":
            for other in self._others(section, index, "from"):
                self.channels.tie(before, other)
            return before
        if section.type == "route":
            return self._route(section, index)
        return self._unknown(section, index)

    def _convolution(self, section: Section, index: int) -> np.ndarray:
        inputs, normalised = self.outputs[-1], section.flag("batch_normalize")
        outputs = self.channels.new(section.integer("filters", 1), fixed=not normalised)
        groups, size = section.integer("groups", 1), section.integer("size", 1)
        places = int(np.prod(self._shape(section, index)[2:]))
        key = f"{section.type}_{index}"
        made = Convolution(index, key, inputs, outputs, groups, size * size, places, normalised)
        if made.is_depthwise:
            self.channels.tie(inputs, outputs)
        elif groups > 1:  # groups of equal size would have to stay equal
            self.channels.fix(inputs)
            self.channels.fix(outputs)
        self.channels.convolutions.append(made)
        return outputs

    def _route(self, section: Section, index: int) -> np.ndarray:
        others = self._others(section, index, "layers")
        groups = section.integer("groups", 1)
        if groups == 1:
            return np.concatenate(others)
        part = section.integer("group_id", 0)
        parts = []
        for other in others:
            self.channels.fix(other)
            size = len(other) // groups
            parts.append(other[part * size : (part + 1) * size])
        return np.concatenate(parts)

    def _unknown(self, section: Section, index: int) -> np.ndarray:
        """Return the channels of a layer of another kind, which cannot do without one of its inputs'."""
        self.channels.fix(self.outputs[-1])
        for setting in ("from", "layers"):
            for other in self._others(section, index, setting):
                self.channels.fix(other)
        return self.channels.new(self._count(section, index), fixed=True)

    def _others(self, section: Section, index: int, setting: str) -> list[np.ndarray]:
        numbers = section.integers(setting) if section.has(setting) else ()
        return [self.outputs[1 + (number + index if number < 0 else number)] for number in numbers]

    def _shape(self, section: Section, index: int) -> tuple[int, ...]:
        layer = self._graph.layers[f"{section.type}_{index}"]
        value = self._graph.values()[layer.outputs[0]]
        sizes = [size if isinstance(size, int) else 1 for size in value.shape or ()]
        if len(sizes) < 2:
            raise ReadError("has an output of unknown size", place=section.place)
        return tuple(sizes)

    def _count(self, section: Section, index: int) -> int:
        return self._shape(section, index)[1]
