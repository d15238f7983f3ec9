"""Pruning of Darknet's channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

import numpy as np

from netweave.errors import ReadError, UsageError
from netweave.files import Source, read_bytes
from netweave.formats.darknet.config import Section, parse_config
from netweave.formats.darknet.reader import build, encode_weights
from netweave.graph import Graph, stored_arrays

# Every convolution makes channels of its own. A sum (``[shortcut]``) ties those of its inputs together,
# place by place; what is joined (``[route]``), scaled up or pooled keeps them. A channel that something
# else reads, whose weights are not cut here, is fixed.

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


@dataclass(frozen=True, slots=True)
class Choice:
    """The channels that pruning keeps.

    Attributes:
        kept: Of each channel by number, whether it stays.
        threshold: Channels with a larger scale stay; others only where a layer would have too few.
        multiply_adds: Of all convolutions then.
    """

    kept: np.ndarray
    threshold: float
    multiply_adds: int


def choose(channels: Channels, scales: Mapping[str, np.ndarray], *, keep: float, least: float) -> Choice:
    """Return the channels with the largest scales whose convolutions cost at most a share of all.

    A channel that several layers share has the largest of its scales.

    Args:
        channels: The channels of the net.
        scales: Of each convolution with batch normalisation, by key.
        keep: Largest share of the multiply-adds, above 0 and at most 1.
        least: Smallest share of the channels of each layer that stay.

    Raises:
        UsageError: No choice costs so little.
    """
    rank = _Ranking(channels, scales, least)
    most = rank.multiply_adds(np.ones(len(rank.scores), bool))
    thresholds = np.concatenate([[-1.0], np.unique(rank.scores[np.isfinite(rank.scores)])])
    low, high = 0, len(thresholds) - 1
    if rank.multiply_adds(rank.kept(thresholds[high])) > keep * most:
        share = rank.multiply_adds(rank.kept(thresholds[high])) / most
        raise UsageError(
            f"cannot keep {keep:g} of the multiply-adds: with {least:g} of the channels of each layer, "
            f"{share:.3g} are left; keep more, or fewer channels of each layer"
        )
    while low < high:  # the cost falls as the threshold grows
        middle = (low + high) // 2
        if rank.multiply_adds(rank.kept(thresholds[middle])) > keep * most:
            low = middle + 1
        else:
            high = middle
    kept = rank.kept(thresholds[low])
    return Choice(kept, max(0.0, float(thresholds[low])), rank.multiply_adds(kept))


class _Ranking:
    """Scores of channels, and what is left under a threshold.

    Attributes:
        scores: Of each channel by number; infinity where it stays in any case.
    """

    def __init__(self, channels: Channels, scales: Mapping[str, np.ndarray], least: float) -> None:
        self._convolutions = channels.convolutions
        self._roots = channels.roots(np.arange(channels.count))
        of_root = np.zeros(len(self._roots))
        for one in self._convolutions:
            if one.normalised:
                np.maximum.at(of_root, self._roots[one.outputs], np.abs(scales[one.key]))
        of_root[list(channels.fixed_roots())] = np.inf
        self.scores = of_root[self._roots]
        self._least = self._protected(least)

    def _protected(self, least: float) -> np.ndarray:
        """Return which channels stay so that each layer has enough: its best ones."""
        protected = np.zeros(len(self._roots), bool)
        for one in self._convolutions:
            count = max(1, ceil(least * len(one.outputs)))
            best = one.outputs[np.argsort(-self.scores[one.outputs], kind="stable")[:count]]
            protected[self._roots[best]] = True
        return np.asarray(protected[self._roots])

    def kept(self, threshold: float) -> np.ndarray:
        """Return which channels stay."""
        return np.asarray((self.scores > threshold) | self._least)

    def multiply_adds(self, kept: np.ndarray) -> int:
        """Return what all convolutions cost with these channels."""
        return sum(_cost(one, kept) for one in self._convolutions)


def _cost(one: Convolution, kept: np.ndarray) -> int:
    inputs, outputs = int(kept[one.inputs].sum()), int(kept[one.outputs].sum())
    per_output = 1 if one.is_depthwise else inputs // one.groups
    return outputs * one.places * one.taps * per_output


OF_OUTPUTS = ("biases", "scales", "rolling_mean", "rolling_variance")


@dataclass(frozen=True, slots=True)
class PrunedNet:
    """A net with fewer channels.

    Attributes:
        config: The text of its ``.cfg``: that of the whole net with other numbers of filters.
        weights: The bytes of its ``.weights``; of no images seen, so that training begins anew.
        filters: Of each convolution by key, filters before and after.
        threshold: Scale above which channels have stayed.
    """

    config: str
    weights: bytes
    filters: Mapping[str, tuple[int, int]]
    threshold: float


def prune_channels(net: Path, weights: Path, *, keep: float, least: float) -> PrunedNet:
    """Remove the channels with the smallest scales of batch normalisation.

    Args:
        net: The ``.cfg``.
        weights: Its ``.weights``.
        keep: Largest share of the multiply-adds that is left, above 0 and at most 1.
        least: Smallest share of the channels of each layer that is left.

    Raises:
        SourceError: A file cannot be read, or they do not fit.
        UsageError: Nothing can be pruned, or not as much.
    """
    content = read_bytes(net)
    sections = parse_config(content, file=str(net))
    graph = build(sections, Source(net), weights).graph
    arrays = stored_arrays(graph)
    channels = trace(sections[1:], graph)
    scales = {one.key: arrays[f"{one.key}/scales"] for one in channels.convolutions if one.normalised}
    if not scales:
        raise UsageError(f"{net}: no layer has batch_normalize=1, so that there are no scales to prune by")
    choice = choose(channels, scales, keep=keep, least=least)
    cut = dict(arrays)
    for one in channels.convolutions:
        cut |= _cut(one, arrays, choice.kept)
    return PrunedNet(
        config=_text(content.decode("utf-8-sig"), sections, channels, choice.kept),
        weights=encode_weights([cut[key] for key in graph.parameters], seen=0),
        filters={
            one.key: (len(one.outputs), int(choice.kept[one.outputs].sum())) for one in channels.convolutions
        },
        threshold=choice.threshold,
    )


def _cut(one: Convolution, arrays: Mapping[str, np.ndarray], kept: np.ndarray) -> dict[str, np.ndarray]:
    """Return the arrays of a convolution without the channels that do not stay."""
    outputs, inputs = np.flatnonzero(kept[one.outputs]), np.flatnonzero(kept[one.inputs])
    names = [f"{one.key}/{name}" for name in OF_OUTPUTS]
    kept_arrays = {name: arrays[name][outputs] for name in names if name in arrays}
    filters = arrays[f"{one.key}/weights"][outputs]
    kept_arrays[f"{one.key}/weights"] = filters if one.groups > 1 else filters[:, inputs]
    return kept_arrays


def _text(text: str, sections: Sequence[Section], channels: Channels, kept: np.ndarray) -> str:
    """Return the text with other numbers of filters; all else, comments too, is as it was."""
    lines = text.splitlines()
    for one in channels.convolutions:
        section, count = sections[1 + one.index], int(kept[one.outputs].sum())
        changed = {"filters": count, **({"groups": count} if one.is_depthwise else {})}
        for name, number in changed.items():
            if number != section.integer(name, 1):
                lines[section.lines[name] - 1] = f"{name}={number}"
    return "\n".join(lines) + "\n"
